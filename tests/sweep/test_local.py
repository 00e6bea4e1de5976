"""Sweeps on this machine: workers and sweeps are killed, and every trial still ends as if nothing had been."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bdqn.cli import main
from bdqn.directory import locked

TABLES = ("config.toml", "episodes.csv", "metrics.csv")


def sweep_file(folder: Path, *, steps: int, seeds: int | list[int], agents: str = "bdqn ddqn", more: str = "") -> Path:
    tables = "\n".join(f"[agents.{name}]" for name in agents.split())
    path = folder / "sweep.toml"
    path.write_text(f"""
steps = {steps}
seeds = {seeds}
environments = ["CartPole-v1"]
{more}
[training]
learning_starts = 100
features = 16
buffer_size = 2_000
[schedule]
save_freq = 200
log_freq = 100
keep = 1
{tables}
""")
    return path


def driver(file: Path, out: Path, *more: str, workers: int = 2) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bdqn", "sweep", str(file), "--out", str(out), "--workers", str(workers), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def complete(file: Path, out: Path, *more: str, workers: int = 2) -> tuple[int, str, str]:
    process = driver(file, out, *more, workers=workers)
    output, errors = process.communicate(timeout=600)
    return process.returncode, output, errors


def files(out: Path, steps: int) -> dict[str, bytes]:
    """What must not depend on who was killed when: each trial's tables and its last checkpoint."""
    found = {}
    for run in sorted((out / "trials").iterdir()):
        assert json.loads((run / "meta.json").read_text())["status"] == "finished"
        last = sorted((run / "checkpoints" / f"gen-{steps:012d}").iterdir())
        found |= {f"{run.name}/{p.name}": p.read_bytes() for p in [*(run / name for name in TABLES), *last]}
    return found


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return [child for child in psutil.Process(process.pid).children() if child.is_running()]
    except psutil.NoSuchProcess:
        return []


def until(condition: object, process: subprocess.Popen[str], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    file = sweep_file(folder, steps=1_500, seeds=2)
    code, output, errors = complete(file, folder / "out")
    assert (code, errors) == (0, "")
    assert "4 of 4 trials are finished." in output
    return folder / "out", files(folder / "out", 1_500)


def test_workers_and_sweeps_that_are_killed_change_nothing(
    tmp_path: Path, undisturbed: tuple[Path, dict[str, bytes]]
) -> None:
    file, out = sweep_file(tmp_path, steps=1_500, seeds=2), tmp_path / "out"
    process = driver(file, out)
    until(lambda: list(out.glob("trials/*/checkpoints/gen-*")), process)
    for worker in workers_of(process):
        worker.kill()
    time.sleep(1.0)
    orphans = workers_of(process)
    process.kill()
    process.communicate()
    again = driver(file, out)  # at once, while the orphans may still be saving
    _output, errors = again.communicate(timeout=300)
    assert (again.returncode, errors) == (0, "")
    assert not any(orphan.is_running() and orphan.status() != psutil.STATUS_ZOMBIE for orphan in orphans)
    assert files(out, 1_500) == undisturbed[1]


def test_an_interrupted_sweep_saves_its_trials_and_goes_on(
    tmp_path: Path, undisturbed: tuple[Path, dict[str, bytes]]
) -> None:
    file, out = sweep_file(tmp_path, steps=1_500, seeds=2), tmp_path / "out"
    process = driver(file, out)
    until(lambda: list(out.glob("trials/*/checkpoints/gen-*")), process)
    process.send_signal(signal.SIGINT)
    _output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert not list(out.glob("trials/*/checkpoints/gen-000000001500"))[2:]  # it was in the middle
    statuses = {json.loads(path.read_text())["status"] for path in out.glob("trials/*/meta.json")}
    assert "interrupted" in statuses
    assert "running" not in statuses
    assert complete(file, out)[0] == 0
    assert files(out, 1_500) == undisturbed[1]


def test_a_finished_sweep_can_be_extended(tmp_path: Path, undisturbed: tuple[Path, dict[str, bytes]]) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed[0], out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("trials/*/episodes.csv")}
    code, output, _ = complete(sweep_file(tmp_path, steps=1_500, seeds=2), out)
    assert (code, "4 of 4 trials" in output) == (0, True)
    assert {path: path.stat().st_mtime_ns for path in out.glob("trials/*/episodes.csv")} == before  # nothing ran
    longer = sweep_file(tmp_path, steps=1_900, seeds=3, agents="bdqn")
    code, output, errors = complete(longer, out)
    assert (code, errors) == (0, "")
    assert "3 of 3 trials are finished." in output
    assert len(list((out / "trials").iterdir())) == 5
    fresh = tmp_path / "fresh"
    assert complete(longer, fresh)[0] == 0
    expected = files(fresh, 1_900)
    mine = {name: (out / "trials" / name.split("/")[0]) for name in expected}
    for name, run in mine.items():
        file = name.split("/")[1]
        path = run / file if file in TABLES else run / "checkpoints" / "gen-000000001900" / file
        assert path.read_bytes() == expected[name], name


def test_what_cannot_work_is_not_retried_and_shown_with_its_message(tmp_path: Path) -> None:
    """Rewards so large that training diverges; the other agent's trials are finished all the same."""
    file = sweep_file(tmp_path, steps=1_500, seeds=1)
    file.write_text(file.read_text().replace("[agents.ddqn]", "[agents.ddqn]\nlearning_rate = 1e30\nloss = 'squared'"))
    began = time.monotonic()
    code, output, errors = complete(file, tmp_path / "out", "--retries", "50")
    assert code == 1
    assert time.monotonic() - began < 120
    assert "1 of 2 trials are finished." in output
    assert "failed: ddqn on CartPole-v1, seed 0: bdqn: Stopped after" in output
    assert "is not finite" in output
    assert "1 trials failed. The same command tries them again." in errors


def test_a_trial_that_keeps_dying_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a machine kills whatever takes too much memory."""
    file, out = sweep_file(tmp_path, steps=1_500, seeds=1, agents="ddqn"), tmp_path / "out"
    monkeypatch.setattr("bdqn.sweep.engine.FIRST_PAUSE", 0.01)
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'bdqn.cli.worker' in ' '.join(sys.orig_argv): os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["sweep", str(file), "--out", str(out), "--retries", "2", "--quiet"]) == 1


def test_only_one_sweep_at_a_time_works_in_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = sweep_file(tmp_path, steps=100, seeds=1), tmp_path / "out"
    out.mkdir()
    with locked(out, new=False):
        process = subprocess.run(
            [sys.executable, "-m", "bdqn", "sweep", str(file), "--out", str(out)], capture_output=True, text=True
        )
    assert process.returncode == 2
    assert "is in use" in process.stderr


def test_a_directory_with_other_things_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sweep_file(tmp_path, steps=100, seeds=1)
    assert main(["sweep", str(file), "--out", str(tmp_path)]) == 2
    assert "is not empty, and holds no sweep" in capsys.readouterr().err


def test_a_dry_run_lists_the_trials_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sweep_file(tmp_path, steps=100_000, seeds=2, agents="ddqn")
    assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--dry-run", "--workers", "1"]) == 0
    output = capsys.readouterr().out
    assert output.count("seed ") == 2
    assert "0 of 100,000 decisions" in output
    assert "2 trials, 1 at a time: about " in output
    assert "GB each" in output
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_many_kills(tmp_path: Path) -> None:
    """Twelve trials; workers are killed twenty times and the sweep five times, at random moments."""
    steps = 4_000
    file = sweep_file(tmp_path, steps=steps, seeds=6)
    assert complete(file, tmp_path / "undisturbed")[0] == 0
    out, rng = tmp_path / "out", random.Random(18)
    killed = {"workers": 0, "sweeps": 0}
    process = driver(file, out)
    while process.poll() is None:
        time.sleep(rng.uniform(0.3, 3.0))
        running = workers_of(process)
        if killed["workers"] < 20 and running:
            rng.choice(running).kill()
            killed["workers"] += 1
        if killed["workers"] >= 4 * (killed["sweeps"] + 1) and killed["sweeps"] < 5:
            process.kill()
            process.communicate()
            killed["sweeps"] += 1
            process = driver(file, out)
    output, errors = process.communicate()
    print(killed)
    assert (process.returncode, errors) == (0, "")
    assert killed == {"workers": 20, "sweeps": 5}
    assert "12 of 12 trials are finished." in output
    assert files(out, steps) == files(tmp_path / "undisturbed", steps)
