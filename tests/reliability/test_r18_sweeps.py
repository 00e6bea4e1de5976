"""A sweep whose workers and driver are killed finishes every trial exactly once, as if nothing had been."""

from __future__ import annotations

import random
import time
from pathlib import Path

import psutil
import pytest

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
