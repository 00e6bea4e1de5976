"""Killed with -9 at any instant, a run resumes, has lost one checkpoint interval at most, and ends as if unharmed."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from support.cartpole import SAVE_FREQ, deterministic_files, go_on, killed_at_random, saved, status, train
from support.forks import Accident, Server


def reached(folder: Path) -> int:
    """The decision up to which the run is known to have come: the latest row of metrics.csv."""
    path = folder / "metrics.csv"
    rows = path.read_text().splitlines()[1:] if path.exists() else []
    return int(rows[-1].split(",")[0]) if rows else 0


def resumed_at(folder: Path) -> list[int]:
    """The decisions from which the run was resumed so far."""
    path = folder / "meta.json"
    return [entry["step"] for entry in json.loads(path.read_text())["resumed"]] if path.exists() else []


def stage(folder: Path) -> str:
    """How far a run had come when it was killed."""
    if not (folder / "config.toml").exists():
        return "before config.toml"
    return "after a checkpoint" if saved(folder) else "before the first checkpoint"


@pytest.mark.parametrize(
    ("kills", "steps", "share"),
    [(8, 800, 0.6), pytest.param(250, 4_000, 0.15, marks=pytest.mark.long)],
    ids=["8", "250"],
)
def test_killed_at_random_instants_it_ends_byte_for_byte_the_same(
    forks: Server, tmp_path: Path, kills: int, steps: int, share: float
) -> None:
    unharmed = tmp_path / "unharmed"
    began = time.monotonic()
    assert forks.run(*train(unharmed, steps)).code == 0
    longest = (time.monotonic() - began) * share
    rng = random.Random(steps)
    stages: Counter[str] = Counter()
    lost, runs = [], 0
    while stages.total() < kills:
        runs += 1
        folder = tmp_path / f"killed-{runs}"
        newest = resumptions = 0
        for _ in killed_at_random(forks, partial(go_on, folder, steps), rng, longest, kills - stages.total()):
            stages[stage(folder)] += 1
            resumed = resumed_at(folder)
            assert resumed[resumptions:] in ([], [newest])  # it went on from the newest, if it came so far
            resumptions = len(resumed)
            assert saved(folder) >= newest
            newest = saved(folder)
            lost.append(reached(folder) - newest)
            assert lost[-1] <= SAVE_FREQ
        assert deterministic_files(folder) == deterministic_files(unharmed)
        assert status(folder) == "finished"
    print(f"{stages.total()} kills in {runs} runs, all resumed: {dict(stages)}.")
    print(f"Decisions lost, of {SAVE_FREQ} between checkpoints: at most {max(lost)}, mean {sum(lost) / len(lost):.0f}.")


def test_killed_before_its_first_and_every_eighth_file_operation_it_ends_byte_for_byte_the_same(
    forks: Server, tmp_path: Path
) -> None:
    """One run, whose process is killed ever later: while it starts, before the first checkpoint, then in and after it.

    The operations are the calls that change the disk, so that between two of them a kill finds the same files.
    """
    unharmed, folder = tmp_path / "unharmed", tmp_path / "killed"
    assert forks.run(*train(unharmed, 450)).code == 0
    stages = die_ever_later(forks, folder, 450, range(1, 1_000, 8))
    assert set(stages) == {"before config.toml", "before the first checkpoint", "after a checkpoint"}
    assert deterministic_files(folder) == deterministic_files(unharmed)


def die_ever_later(forks: Server, folder: Path, steps: int, operations: range) -> Counter[str]:
    stages: Counter[str] = Counter()
    for operation in operations:
        process = forks.run(*go_on(folder, steps), accident=Accident("kill", operation))
        assert process.errors == ""
        if process.code == 0:
            return stages
        assert process.code == -signal.SIGKILL
        stages[stage(folder)] += 1
    raise AssertionError(f"{folder} did not come to an end.")


@pytest.mark.long
def test_killed_before_any_file_operation_it_ends_byte_for_byte_the_same(forks: Server, tmp_path: Path) -> None:
    unharmed, chain = tmp_path / "unharmed", tmp_path / "chain"
    steps = 450
    assert forks.run(*train(unharmed, steps)).code == 0
    stages: Counter[str] = Counter()
    for operation in range(1, 10_000):
        folder = tmp_path / str(operation)
        if forks.run(*train(folder, steps), accident=Accident("kill", operation)).code == 0:
            break
        stages[stage(folder)] += 1
        process = forks.run(*go_on(folder, steps))
        assert (process.code, process.errors) == (0, ""), operation
        assert deterministic_files(folder) == deterministic_files(unharmed), operation
        assert status(folder) == "finished", operation
    print(f"Killed before each of {operation - 1} file operations, resumed each time: {dict(stages)}.")
    again = die_ever_later(forks, chain, steps, range(1, 1_000))
    assert deterministic_files(chain) == deterministic_files(unharmed)
    print(f"One run killed {again.total()} times, each time one operation later: {dict(again)}.")
