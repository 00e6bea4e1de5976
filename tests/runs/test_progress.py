"""What a user sees while it trains."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.runs import progress
from bdqn.runs.progress import Lines, format_return, ignoring_output_errors
from support.cli import SMALL


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


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.012345, "0.0123"), (0.5, "0.5"), (-3.14159, "-3.14"), (1234.56, "1,234.6")],
)
def test_a_return_is_shown_with_digits_that_mean_something(value: float | None, text: str) -> None:
    """On a task that pays 0 or 1, one decimal would say 0.0 for most of the training."""
    assert format_return(value) == text


def test_a_clock_that_stands_still_is_no_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(progress.time, "monotonic", lambda: 7.0)
    monkeypatch.setattr(progress.time, "perf_counter", lambda: 7.0)
    lines = Lines(10_000)
    lines.show(1, None)
    lines.show(1_001, 0.5)
    assert "0 steps/s, time left unknown" in capsys.readouterr().out
    words = ["train", "--env", "CartPole-v1", "--agent", "random", "--steps", "400", "--out", str(tmp_path / "run")]
    assert main([*words, "--log-freq", "100"]) == 0
    assert (tmp_path / "run" / "timing.csv").read_text().splitlines()[1] == "100,0.0,0.0"


@pytest.mark.parametrize("terminal", [False, True], ids=["lines", "bar"])
def test_evaluations_are_shown_as_they_come(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, terminal: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    words = ["train", "--env", "CartPole-v1", "--agent", "random", "--steps", "200", "--out", str(tmp_path / "run")]
    assert main([*words, "--eval-freq", "100", "--eval-episodes", "2"]) == 0
    printed = capsys.readouterr().out
    rows = (tmp_path / "run" / "evaluations.csv").read_text().splitlines()[1:]
    for row in rows:
        step, mean, std, _ = row.split(",")
        figures = f"mean return {format_return(float(mean))}, std {format_return(float(std))} (2 episodes)"
        assert f"Evaluation after {step} steps: {figures}" in printed
    assert len(rows) == 2


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress(100, quiet=True) as silent:
        silent.show(50, 1.0)
        silent.log("Evaluation")
    assert capsys.readouterr().out == ""


def test_printing_that_nobody_reads_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        for _ in range(2):  # once it fails, then it goes nowhere
            with ignoring_output_errors(stream):
                print("21.0", file=stream)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is a disk without room")
def test_printing_to_a_full_disk_or_a_closed_stream_is_no_error(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        for _ in range(2):
            with ignoring_output_errors(full):
                print("Could not write a checkpoint", file=full)
    closed = (tmp_path / "closed").open("w")
    closed.close()
    with ignoring_output_errors(closed):
        print("21.0", file=closed)


def test_a_disk_that_has_room_again_gets_the_next_line(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            with ignoring_output_errors(log):
                print("Training goes on.", file=log)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        with ignoring_output_errors(log):
            print("Writing works again.", file=log)
    assert (tmp_path / "log").read_text() == "Writing works again.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is a disk without room")
def test_output_to_a_full_disk_changes_no_exit_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bdqn", "train", "--env", "CartPole-v1", "--steps", "200", "--out", str(tmp_path)]
    with open("/dev/full", "w") as full:
        done = subprocess.run([*command, "--agent", "random"], stdout=full, stderr=full, check=False)
    assert done.returncode == 0


def test_a_reader_that_leaves_does_not_end_the_run(tmp_path: Path) -> None:
    """As in ``bdqn train ... | head -1``."""
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "bdqn", "train", "--env", "CartPole-v1", "--steps", "600", "--out", str(folder)]
    with subprocess.Popen([*command, *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert (
            process.stdout.readline()
            == "Bayesian DQN that explores out of the box (bdqn-explore) on CartPole-v1, seed 0\n"
        )
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0
    assert (folder / "checkpoints" / "gen-000000000600").is_dir()
    assert json.loads((folder / "meta.json").read_text())["status"] == "finished"
