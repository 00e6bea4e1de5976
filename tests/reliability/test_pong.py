"""A run on Atari's Pong, killed with -9 at random moments and resumed each time, ends as if it had never been killed.

About ten minutes on two cores: make test-long
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

STEPS = 1_500
SETTINGS = (
    *("--env", "ALE/Pong-v5", "--steps", str(STEPS), "--log-freq", "100", "--save-freq", "100", "--threads", "1"),
    *("--learning-starts", "200", "--buffer-size", "1000", "--posterior-update-interval", "300"),
    *("--posterior-batch-size", "600", "--target-update-interval", "150", "--eval-freq", "700", "--eval-episodes", "1"),
    *("--max-episode-frames", "2000", "--quiet"),
)


def bdqn(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bdqn", *words], stdout=subprocess.DEVNULL)


def deterministic_files(folder: Path) -> dict[str, bytes]:
    """Everything that must not depend on interruptions: tables, configuration, and all files of all checkpoints."""
    names = ["config.toml", "episodes.csv", "metrics.csv", "evaluations.csv"]
    paths = [folder / name for name in names] + sorted((folder / "checkpoints").rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}


def timed(folder: Path) -> tuple[float, float]:
    """An undisturbed run: seconds until it began, and until it ended."""
    began = time.monotonic()
    process = bdqn("train", *SETTINGS, "--out", str(folder))
    while not (folder / "config.toml").exists():
        time.sleep(0.02)
    start_up = time.monotonic() - began
    assert process.wait() == 0
    return start_up, time.monotonic() - began


def test_pong_killed_at_random_moments_ends_byte_for_byte_the_same(tmp_path: Path) -> None:
    quiet, killed = tmp_path / "quiet", tmp_path / "killed"
    start_up, whole = timed(quiet)
    rng = random.Random(0)
    kills, saved = 0, []
    process = bdqn("train", *SETTINGS, "--out", str(killed))
    while True:
        # From the first moments of the interpreter to a few checkpoints later.
        patience = rng.uniform(0.1, start_up + (whole - start_up) / 6)
        try:
            code = process.wait(timeout=patience)
            assert code == 0
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            saved.append(max((path.name for path in (killed / "checkpoints").glob("gen-*")), default="none"))
        begun = (killed / "config.toml").exists()
        process = bdqn("resume", str(killed), "--quiet") if begun else bdqn("train", *SETTINGS, "--out", str(killed))
    print(f"{kills} kills, latest checkpoint at each: {saved}")
    assert deterministic_files(killed) == deterministic_files(quiet)
    assert kills >= 20, "too few kills for a claim: raise STEPS"
