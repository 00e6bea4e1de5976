"""Sweeps by Ray: the same trials with the same files, and a node that is lost in the middle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.sweep.cluster import NOT_SHARED, run_trial

from .common import STEPS, complete, driver, files, sweep_file, undisturbed_sweep

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


@pytest.mark.parametrize(
    ("address", "message"),
    [("127.0.0.1:1", "Ray cannot be used at 127.0.0.1:1: "), ("locla", "--ray must be local, HOST:PORT or ray://")],
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
    process = driver(file, out, "--ray", cluster.address)  # type: ignore[attr-defined]
    try:
        end = time.monotonic() + 120
        while len({path.parent for path in out.glob("trials/*/checkpoints/gen-*")}) < 2:  # both nodes are at work
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)  # type: ignore[attr-defined]
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert "4 of 4 trials are finished." in output
    assert files(out, STEPS) == undisturbed
    lives = [len((path.parent / "command.txt").read_text().splitlines()) for path in out.glob("trials/*/meta.json")]
    assert sorted(lives)[-1] == 2  # one trial was begun on the lost node, and went on elsewhere
