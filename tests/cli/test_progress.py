"""What a user sees while it trains."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bdqn import progress
from bdqn.progress import Lines, unheard_is_fine

from .conftest import SMALL


def test_lines_tell_steps_return_speed_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, 6.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    lines = Lines(10_000)
    lines.show(1, None)
    assert capsys.readouterr().out == ""  # one step makes no rate
    lines.show(1_001, 21.04)
    assert capsys.readouterr().out == "1,001 of 10,000 steps, mean return 21.0, 200 steps/s, 45 s left\n"


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress(100, quiet=False) as bar:
        bar.show(50, 12.34)
    output = capsys.readouterr().out
    assert "50%" in output
    assert "mean return 12.3" in output


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress(100, quiet=True) as silent:
        silent.show(50, 1.0)
    assert capsys.readouterr().out == ""


def test_printing_that_nobody_reads_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        for _ in range(2):  # once it fails, then it goes nowhere
            with unheard_is_fine(stream):
                print("21.0", file=stream)


def test_a_reader_that_leaves_does_not_end_the_run(tmp_path: Path) -> None:
    """As in ``bdqn train ... | head -1``."""
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "bdqn", "train", "--env", "CartPole-v1", "--steps", "600", "--out", str(folder)]
    with subprocess.Popen([*command, *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "Bayesian DQN (bdqn) on CartPole-v1, seed 0\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0
    assert (folder / "checkpoints" / "gen-000000000600").is_dir()
    assert json.loads((folder / "meta.json").read_text())["status"] == "finished"
