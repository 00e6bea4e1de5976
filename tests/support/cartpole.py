"""A small run that has everything a large one has, and saves about five times a second; and what it must end as."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from support.forks import Process, Server

LOG_FREQ, SAVE_FREQ = 50, 200
SETTINGS = (
    *("--env", "CartPole-v1", "--agent", "bdqn", "--quiet", "--log-freq", str(LOG_FREQ), "--save-freq", str(SAVE_FREQ)),
    *("--learning-starts", "100", "--features", "16", "--posterior-update-interval", "150"),
    *("--posterior-batch-size", "300", "--target-update-interval", "90"),
    *("--buffer-size", "400"),  # so that replay segments of 100 frames come and go
    *("--keep", "2", "--eval-freq", "300", "--eval-episodes", "1"),
)


def train(folder: Path, steps: int, *more: str) -> tuple[str, ...]:
    return ("train", *SETTINGS, "--steps", str(steps), "--out", str(folder), *more)


def go_on(folder: Path, steps: int, *more: str) -> tuple[str, ...]:
    """What a user does after a crash: resume, or start again where nothing had begun."""
    return ("resume", str(folder), "--quiet") if (folder / "config.toml").exists() else train(folder, steps, *more)


def deterministic_files(folder: Path) -> dict[str, bytes]:
    """What must not depend on interruptions: configuration, tables, and every file of every checkpoint."""
    names = ("config.toml", "episodes.csv", "metrics.csv", "evaluations.csv")
    paths = [folder / name for name in names] + sorted((folder / "checkpoints").rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}


def saved(folder: Path) -> int:
    """The decision of the newest checkpoint; 0 without one."""
    return max((int(path.name[4:16]) for path in folder.glob("checkpoints/gen-*")), default=0)


def status(folder: Path) -> str:
    text: str = json.loads((folder / "meta.json").read_text())["status"]
    return text


def killed_at_random(
    forks: Server, command: Callable[[], tuple[str, ...]], rng: random.Random, longest: float, most: int
) -> Iterator[Process]:
    """Run a command again and again, killed with -9, until it ends; gives every process that was killed.

    The instants are random, from the first moment of a process to ``longest`` seconds later; after ``most`` kills it
    is let be.
    """
    kills = 0
    while True:
        process = forks.start(*command())
        end = time.monotonic() + (rng.uniform(0, longest) if kills < most else 60)
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        process.kill()
        assert process.errors == ""  # nothing was passed over, nothing could not be written
        if process.code == 0:
            return
        assert process.code == -signal.SIGKILL
        kills += 1
        yield process
