"""Two processes never work in one run's directory: the second is refused, and harms nothing."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from support.cartpole import deterministic_files, saved, status, train
from support.forks import Process, Server, wait_until

STEPS = 500
REFUSALS = ("is in use: another process is training in it", "already holds a run: continue it", "holds no run")


@pytest.fixture(scope="module")
def unharmed(forks: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("unharmed") / "run"
    assert forks.run(*train(folder, STEPS)).code == 0
    return deterministic_files(folder)


def race(forks: Server, commands: list[tuple[str, ...]], rng: random.Random) -> list[Process]:
    """Start commands within milliseconds of each other; gives them when all have ended, the one that won first."""
    at = time.monotonic() + 0.05
    processes = [forks.start(*command, at=at + rng.uniform(0, 0.01)) for command in commands]
    for process in processes:
        process.wait()
    return sorted(processes, key=lambda process: process.code or 0)


@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.long)])
def test_of_two_that_begin_a_run_at_once_one_is_refused(
    forks: Server, tmp_path: Path, unharmed: dict[str, bytes], rounds: int
) -> None:
    rng = random.Random(20)
    for i in range(rounds):
        folder = tmp_path / str(i)
        winner, loser = race(forks, [train(folder, STEPS)] * 2, rng)
        assert (winner.code, winner.errors, loser.code) == (0, "", 2)
        assert loser.errors.startswith(f"bdqn: {folder} ")
        assert any(reason in loser.errors for reason in REFUSALS[:2])
        assert deterministic_files(folder) == unharmed
        assert status(folder) == "finished"
        assert (folder / "command.txt").read_text().count("\n") == 1


@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.long)])
def test_of_all_that_go_on_with_a_killed_run_at_once_one_does(
    forks: Server, tmp_path: Path, unharmed: dict[str, bytes], rounds: int
) -> None:
    """Among them one that would begin anew; and what holds the lock when it is killed does not keep it."""
    rng = random.Random(21)
    for i in range(rounds):
        folder = tmp_path / str(i)
        first = forks.start(*train(folder, STEPS))
        wait_until(lambda folder=folder: saved(folder), first)  # type: ignore[misc]
        assert "is in use" in forks.run("resume", str(folder)).errors
        first.kill()
        resume = ("resume", str(folder), "--quiet")
        processes = race(forks, [resume, train(folder, STEPS), resume], rng)
        # One that was held up until the run was over has nothing left to do, which is no error.
        idle = [process for process in processes if "has already taken" in process.output]
        (winner,) = [process for process in processes if process.code == 0 and process not in idle]
        assert winner.errors == ""
        losers = [process for process in processes if process not in (winner, *idle)]
        assert losers
        assert all(loser.code == 2 for loser in losers)
        assert all(any(reason in loser.errors for reason in REFUSALS[:2]) for loser in losers)
        assert deterministic_files(folder) == unharmed
        assert status(folder) == "finished"


@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.long)])
def test_of_one_that_begins_and_one_that_resumes_at_once_the_first_trains(
    forks: Server, tmp_path: Path, unharmed: dict[str, bytes], rounds: int
) -> None:
    rng = random.Random(22)
    for i in range(rounds):
        folder = tmp_path / str(i)
        winner, loser = race(forks, [train(folder, STEPS), ("resume", str(folder), "--quiet")], rng)
        assert (winner.code, winner.errors, loser.code) == (0, "", 2)
        assert any(reason in loser.errors for reason in (*REFUSALS, "does not exist"))
        assert deterministic_files(folder) == unharmed
