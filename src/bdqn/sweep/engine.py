"""Carrying out a sweep: who runs next, who is begun again, and who is given up. Where trials run is their engine's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from bdqn.directory import is_locked
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.plan import Sweep, Trial

HOPELESS = (1, 2)  # exit codes of a run that cannot go on, and of a mistake in what was asked: no retry helps
FIRST_PAUSE = 1.0  # seconds before the first retry; then twice as long each time
POLL = 0.05


class Job(Protocol):
    """A trial under way."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs; whatever took it away without one counts as a crash."""

    def stop(self) -> None:
        """Ask it to save a checkpoint and to end."""

    def wait(self) -> None:
        """Return when it has ended."""


class Engine(Protocol):
    """Where trials run."""

    def start(self, trial: Trial, folder: SweepFolder, steps: int) -> Job:
        """Begin a trial, or go on with it."""


@dataclass
class Attempt:
    """How often a trial was begun in vain, and from where."""

    failures: int = 0
    checkpoint: int = -1
    not_before: float = 0.0


@dataclass
class Work:
    """What there is to do, what is being done, and what came of it."""

    waiting: list[Trial]
    running: dict[Trial, Job] = field(default_factory=dict)
    failed: dict[Trial, str] = field(default_factory=dict)
    done: list[Trial] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return not self.waiting and not self.running


def carry_out(
    sweep: Sweep,
    folder: SweepFolder,
    engine: Engine,
    workers: int,
    retries: int,
    watch: Callable[[Work], None],
    stop: Callable[[], bool],
) -> Work:
    """Run every trial that is not finished, ``workers`` at a time, until all are or ``stop()`` holds.

    A trial whose process dies goes on from its latest checkpoint, after a pause; ``retries`` counts the times in a row
    that this came to nothing new.
    """
    finished = [trial for trial in sweep.trials if folder.progress(trial, sweep.steps).finished]
    work = Work([trial for trial in sweep.trials if trial not in finished], done=finished)
    attempts = {trial: Attempt() for trial in work.waiting}
    try:
        while not work.is_over and not stop():
            _collect(work, folder, attempts, retries)
            _start(work, folder, engine, attempts, workers, sweep.steps)
            watch(work)
            time.sleep(POLL)
    finally:
        for job in work.running.values():
            job.stop()
        for job in work.running.values():
            job.wait()
    return work


def _start(
    work: Work,
    folder: SweepFolder,
    engine: Engine,
    attempts: dict[Trial, Attempt],
    workers: int,
    steps: int,
) -> None:
    now = time.monotonic()
    for trial in [trial for trial in work.waiting if attempts[trial].not_before <= now]:
        if len(work.running) >= workers:
            return
        if is_locked(folder.run(trial)):  # a worker of a sweep that was killed is still saving
            attempts[trial].not_before = now + FIRST_PAUSE
            continue
        work.waiting.remove(trial)
        attempts[trial].checkpoint = folder.checkpoint(trial)
        work.running[trial] = engine.start(trial, folder, steps)


def _collect(work: Work, folder: SweepFolder, attempts: dict[Trial, Attempt], retries: int) -> None:
    for trial, job in list(work.running.items()):
        code = job.poll()
        if code is None:
            continue
        del work.running[trial]
        attempt = attempts[trial]
        if code == 0:
            work.done.append(trial)
            continue
        came_further = folder.checkpoint(trial) > attempt.checkpoint
        attempt.failures = 1 if came_further else attempt.failures + 1
        if code in HOPELESS or attempt.failures > retries:
            work.failed[trial] = folder.message(trial) or f"ended with exit code {code}"
        else:
            attempt.not_before = time.monotonic() + FIRST_PAUSE * 2 ** (attempt.failures - 1)
            work.waiting.insert(0, trial)
