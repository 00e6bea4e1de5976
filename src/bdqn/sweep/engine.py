"""Carrying out a sweep: who runs next, who is begun again, and who is given up. Where trials run is their engine's."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from bdqn.runs.directory import is_locked
from bdqn.runs.exit_codes import DISK_FULL, FAILED, GRACE, LOST, TO_CORRECT, code_of
from bdqn.runs.progress import duration
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.plan import Sweep, Trial

HOPELESS = (FAILED, TO_CORRECT)  # no retry helps
FIRST_PAUSE = 1.0  # seconds before the first retry; then twice as long each time
DISK_PAUSE = 30.0  # the same where a disk is full: somebody has to make room
LONGEST_PAUSE = 600.0
PATIENCE = GRACE + 5.0  # seconds until a job that was asked to stop is killed; it should have given itself up by then
POLL = 0.05


class Job(Protocol):
    """A trial under way."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs; whatever took it away without one counts as a crash."""

    def stop(self) -> None:
        """Ask it to save a checkpoint and to end."""

    def wait(self, seconds: float) -> bool:
        """Wait for its end, but no longer than this; says whether it has ended."""

    def kill(self) -> None:
        """End it at once: what it has not saved is lost."""


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
    notes: dict[Trial, str] = field(default_factory=dict)  # why a trial waits, or was killed

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
    foreman = _Foreman(work, folder, engine, sweep.steps, retries)
    try:
        while not work.is_over and not stop():
            foreman.collect()
            foreman.start(workers)
            watch(work)
            time.sleep(POLL)
    finally:
        foreman.stop(watch)
    return work


class _Foreman:
    """Begins trials, and decides what becomes of those whose process has ended."""

    def __init__(self, work: Work, folder: SweepFolder, engine: Engine, steps: int, retries: int) -> None:
        self._work, self._folder, self._engine = work, folder, engine
        self._steps, self._retries = steps, retries
        self._attempts = {trial: Attempt() for trial in work.waiting}

    def start(self, workers: int) -> None:
        """Begin as many trials as there are workers for."""
        work, now = self._work, time.monotonic()
        for trial in [trial for trial in work.waiting if self._attempts[trial].not_before <= now]:
            if len(work.running) >= workers:
                return
            attempt = self._attempts[trial]
            if is_locked(self._folder.run(trial)):
                attempt.not_before = now + FIRST_PAUSE
                work.notes[trial] = (
                    f"waits for another process that uses {self._folder.run(trial)}: "
                    f"a worker of a sweep that was killed may take up to {duration(GRACE)} to save"
                )
                continue
            work.waiting.remove(trial)
            work.notes.pop(trial, None)
            attempt.checkpoint = self._folder.checkpoint(trial)
            try:
                work.running[trial] = self._engine.start(trial, self._folder, self._steps)
            except OSError as error:  # no file for its log, or no process
                self._settle(trial, code_of(error), str(error))

    def collect(self) -> None:
        """Look who has ended."""
        for trial, job in list(self._work.running.items()):
            code = job.poll()
            if code is not None:
                del self._work.running[trial]
                self._settle(trial, code, self._folder.message(trial))

    def stop(self, watch: Callable[[Work], None]) -> None:
        """Have whatever runs save and end; what does not end in time is killed."""
        work = self._work
        for trial, job in work.running.items():
            job.stop()
            work.notes[trial] = f"was asked to save and to end: after {duration(GRACE)} it is killed"
        asked = time.monotonic()
        while work.running and time.monotonic() < asked + PATIENCE:
            watch(work)
            for trial, job in list(work.running.items()):
                if job.wait(POLL):
                    self._put_down(trial, killed=time.monotonic() >= asked + GRACE)
        for trial, job in list(work.running.items()):
            job.kill()
            self._put_down(trial, killed=True)

    def _put_down(self, trial: Trial, *, killed: bool) -> None:
        work = self._work
        del work.running[trial], work.notes[trial]
        if self._folder.progress(trial, self._steps).finished:
            work.done.append(trial)
            return
        work.waiting.append(trial)
        if killed:
            work.notes[trial] = (
                "did not end when asked to, stuck in its environment perhaps, and was killed: "
                "it will go on from its latest checkpoint"
            )

    def _settle(self, trial: Trial, code: int, said: str) -> None:
        """A process has ended: its trial is done if its files say so, whatever its exit code; or is begun again."""
        work, attempt = self._work, self._attempts[trial]
        if self._folder.progress(trial, self._steps).finished:
            work.done.append(trial)
            return
        came_further = self._folder.checkpoint(trial) > attempt.checkpoint
        attempt.failures = 1 if came_further else attempt.failures + 1
        why = self._why(code)
        if code in HOPELESS or attempt.failures > self._retries:
            work.failed[trial] = why or said or f"ended with exit code {code}"
            return
        first = DISK_PAUSE if code == DISK_FULL else FIRST_PAUSE
        pause = min(LONGEST_PAUSE, first * 2 ** (attempt.failures - 1))
        attempt.not_before = time.monotonic() + pause
        why = why or f"it ended with exit code {code} ({self._folder.log(trial)})"
        work.notes[trial] = f"is begun again after {duration(pause)}: {why}"
        work.waiting.insert(0, trial)

    def _why(self, code: int) -> str | None:
        """Why a process ended without finishing its trial, where the last line of its log does not say it."""
        if code == 0:
            return "it ended as if all were well (exit code 0), but its run is not finished"
        if code == DISK_FULL:
            return f"its files could not be written to {self._folder.disk()}. Make room: the same command goes on"
        if code == LOST:
            return "the node that ran it is gone, or Ray itself"
        if code < 0:
            with suppress(ValueError):
                return f"it was killed ({signal.Signals(-code).name})"
        return None
