"""A sweep whose workers and driver are killed finishes every trial exactly once, as if nothing had been."""

from __future__ import annotations

import random
import time
from itertools import count
from pathlib import Path

import psutil
import pytest

from bdqn.runs.exit_codes import DISK_FULL
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.plan import read_sweep
from support.forks import Accident, Server
from support.sweeps import begun, complete, driver, files, sweep_file, undisturbed_sweep, workers_of


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    return undisturbed_sweep(tmp_path_factory.mktemp("undisturbed"))


def test_workers_and_sweeps_that_are_killed_change_nothing(
    tmp_path: Path, undisturbed: tuple[Path, dict[str, bytes]]
) -> None:
    process, file, out = begun(tmp_path)
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


@pytest.mark.parametrize("what", ["ENOSPC", "kill"])
def test_a_sweep_that_fails_at_any_moment_of_its_start_continues(forks: Server, tmp_path: Path, what: str) -> None:
    file = sweep_file(tmp_path, steps=100, seeds=1, agents="random")
    for operation in count(1):
        out = tmp_path / str(operation)
        process = forks.run("sweep", str(file), "--out", str(out), "--quiet", accident=Accident(what, operation))
        assert "Traceback" not in process.errors
        started = (out / "logs").is_dir()
        if out.is_dir():
            SweepFolder(out).prepare(read_sweep(file))  # what the same command does first
        if started and operation > 8:  # some refusals before that do no harm
            break


def test_after_a_start_on_a_full_disk_the_same_command_completes_the_sweep(forks: Server, tmp_path: Path) -> None:
    command = ("sweep", str(sweep_file(tmp_path, steps=100, seeds=1, agents="random")), "--out", str(tmp_path / "out"))
    process = forks.run(*command, accident=Accident("ENOSPC", 9, 1_000_000))
    assert process.code == DISK_FULL
    assert process.errors.endswith("free some space and try again.\n")
    assert forks.run(*command).code == 0


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
