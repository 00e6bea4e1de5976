"""Sweeps by Ray: the same trials with the same files, and a node that is lost in the middle."""

from __future__ import annotations

import _thread
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from bdqn.cli import main
from bdqn.runs.directory import is_locked
from bdqn.sweep.cluster import NOT_SHARED, run_trial
from support.sweeps import STEPS, complete, driver, files, sweep_file, undisturbed_sweep, until

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -c constraints.txt -e '.[ray]'")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return undisturbed_sweep(tmp_path_factory.mktemp("local"))[1]


@pytest.fixture(autouse=True)
def quiet_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # otherwise it writes a token into the home directory
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


def test_its_trials_are_those_of_a_local_sweep(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    code, output, errors = complete(sweep_file(tmp_path, steps=STEPS, seeds=2), tmp_path / "out", "--ray", "local")
    assert code == 0, errors
    assert "4 of 4 trials are finished." in output
    assert files(tmp_path / "out", STEPS) == undisturbed


def both_under_way(out: Path) -> bool:
    return len({path.parent for path in out.glob("trials/*/checkpoints/gen-*")}) >= 2


@contextmanager
def finishing(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """A sweep of four trials that finishes them, whatever is done to it in here."""
    try:
        yield process
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert "4 of 4 trials are finished." in output


@pytest.fixture
def going(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A sweep by Ray of two trials that would take long, both under way, and its directory."""
    out = tmp_path / "out"
    with driver(sweep_file(tmp_path, steps=1_000_000, seeds=2, agents="ddqn"), out, "--ray", "local") as process:
        try:
            until(lambda: both_under_way(out), process, seconds=180)  # Ray takes its time on a busy machine
            yield process, out
        finally:
            process.kill()


def ended(out: Path) -> bool:
    return not any(is_locked(run) for run in (out / "trials").iterdir())


def statuses(out: Path) -> list[str]:
    return [json.loads(path.read_text())["status"] for path in out.glob("trials/*/meta.json")]


@pytest.mark.long
def test_an_interrupt_saves_and_ends_every_trial(going: tuple[subprocess.Popen[str], Path]) -> None:
    process, out = going
    process.send_signal(signal.SIGINT)
    _output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert ended(out)
    assert statuses(out) == ["interrupted"] * 2


@pytest.mark.long
def test_trials_whose_driver_is_killed_save_and_end(going: tuple[subprocess.Popen[str], Path]) -> None:
    process, out = going
    process.kill()
    process.communicate()
    end = time.monotonic() + 60
    while not ended(out):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert statuses(out) == ["interrupted"] * 2


@pytest.mark.long
def test_a_sweep_survives_the_death_of_its_raylet(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    file, out = sweep_file(tmp_path, steps=STEPS, seeds=2), tmp_path / "out"
    with finishing(driver(file, out, "--ray", "local")) as process:
        until(lambda: list(out.glob("trials/*/checkpoints/gen-*")), process)
        (raylet,) = [child for child in psutil.Process(process.pid).children() if child.name() == "raylet"]
        raylet.kill()
    assert files(out, STEPS) == undisturbed


@pytest.mark.parametrize(
    ("address", "message"),
    [("127.0.0.1:1", "Cannot connect to Ray at 127.0.0.1:1: "), ("locla", "--ray must be local, HOST:PORT or ray://")],
)
def test_a_cluster_that_is_not_there_is_named(
    tmp_path: Path, address: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sweep_file(tmp_path, steps=100, seeds=1)
    assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--ray", address]) == 2
    assert message in capsys.readouterr().err


def test_a_node_without_the_sweeps_directory_is_noticed(tmp_path: Path) -> None:
    assert run_trial(["train"], tmp_path / "log", 1, tmp_path / "elsewhere" / "token", "abc") == NOT_SHARED
    (tmp_path / "token").write_text("of another sweep")
    assert run_trial(["train"], tmp_path / "log", 1, tmp_path / "token", "abc") == NOT_SHARED
    assert not (tmp_path / "log").exists()


def test_a_task_of_a_sweep_in_the_background_can_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell lets what it begins with ``&`` ignore SIGINT, and Ray's workers inherit that."""
    done = []

    class Endless:
        def __init__(self, *_: object) -> None:
            pass

        def wait(self, _seconds: float) -> bool:
            done.append("wait")
            if len(done) == 1:
                _thread.interrupt_main()  # as Ray does
            return len(done) > 1  # it ends when stopped, or else by itself

        def stop(self) -> None:
            done.append("stop")

        def poll(self) -> int:
            return 0

    monkeypatch.setattr("bdqn.sweep.cluster.Process", Endless)
    (tmp_path / "token").write_text("abc")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_trial(["train"], tmp_path / "log", 1, tmp_path / "token", "abc")
        assert done[:2] == ["wait", "stop"]
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def cluster() -> Iterator[object]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    made.shutdown()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of Ray's own
def test_a_node_that_is_lost_in_the_middle_changes_nothing(
    tmp_path: Path, undisturbed: dict[str, bytes], cluster: object
) -> None:
    node = cluster.add_node(num_cpus=1)  # type: ignore[attr-defined]
    file, out = sweep_file(tmp_path, steps=STEPS, seeds=2), tmp_path / "out"
    with finishing(driver(file, out, "--ray", cluster.address)) as process:  # type: ignore[attr-defined]
        until(lambda: both_under_way(out), process, seconds=120)  # on both nodes
        cluster.remove_node(node, allow_graceful=False)  # type: ignore[attr-defined]
    assert files(out, STEPS) == undisturbed
    lives = [len((path.parent / "command.txt").read_text().splitlines()) for path in out.glob("trials/*/meta.json")]
    assert sorted(lives)[-1] == 2  # one trial was begun on the lost node, and went on elsewhere
