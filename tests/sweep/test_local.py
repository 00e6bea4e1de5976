"""Sweeps on this machine: interrupted, extended, failing, refused."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.directory import locked

from .common import TABLES, complete, driver, files, sweep_file, undisturbed_sweep, until


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    return undisturbed_sweep(tmp_path_factory.mktemp("undisturbed"))


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
    logs = [path.read_text().count("Stopped after") for path in (tmp_path / "out" / "logs").iterdir()]
    assert sorted(logs) == [0, 1]  # it was begun once
    assert "1 trials failed. The same command tries them again." in errors


def test_a_trial_that_keeps_dying_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a machine kills whatever takes too much memory."""
    file, out = sweep_file(tmp_path, steps=1_500, seeds=1, agents="ddqn"), tmp_path / "out"
    monkeypatch.setattr("bdqn.sweep.engine.FIRST_PAUSE", 0.01)
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'bdqn.cli.worker' in ' '.join(sys.orig_argv):\n"
        f"    open({str(tmp_path / 'lives')!r}, 'a').write('x')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["sweep", str(file), "--out", str(out), "--retries", "2", "--quiet"]) == 1
    assert (tmp_path / "lives").read_text() == "xxx"  # it was begun, and begun again twice


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
