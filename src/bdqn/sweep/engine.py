"""Runs a sweep: starts trials, retries those that die, and gives up on those that cannot succeed.

An engine decides where trials run.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from bdqn.runs.directory import is_locked
from bdqn.runs.exit_codes import DISK_FULL, FAILED, GRACE, USAGE_ERROR, WORKER_LOST, code_of
from bdqn.runs.progress import duration
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.plan import Sweep, Trial

NOT_RETRIED = (FAILED, USAGE_ERROR)  # a retry would fail the same way
FIRST_PAUSE = 1.0  # seconds before the first retry; doubled each time
DISK_PAUSE = 30.0  # the same for a full disk: the user has to free space
LONGEST_PAUSE = 600.0
KILL_AFTER = GRACE + 5.0  # seconds until a job that was asked to stop is killed; by then it should have exited
POLL = 0.05


class Job(Protocol):
    """A running trial."""

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs. Without an exit code it counts as crashed."""

    def stop(self) -> None:
        """Ask it to save a checkpoint and exit."""

    def wait(self, seconds: float) -> bool:
        """Wait for its end, up to ``seconds``. Returns whether it has ended."""

    def kill(self) -> None:
        """Kill it. Unsaved work is lost."""


class Engine(Protocol):
    """Where trials run."""

    def start(self, trial: Trial, folder: SweepFolder) -> Job:
        """Start or resume a trial."""


@dataclass
class Attempt:
    """Failed attempts at a trial since it last made progress."""

    failures: int = 0
    checkpoint: int = -1
    not_before: float = 0.0


@dataclass
class Work:
    """The trials of a sweep by state."""

    waiting: list[Trial]
    running: dict[Trial, Job] = field(default_factory=dict)
    failed: dict[Trial, str] = field(default_factory=dict)
    done: list[Trial] = field(default_factory=list)
    notes: dict[Trial, str] = field(default_factory=dict)  # why a trial waits, or was killed

    @property
    def is_over(self) -> bool:
        return not self.waiting and not self.running


def run_sweep(
    sweep: Sweep,
    folder: SweepFolder,
    engine: Engine,
    workers: int,
    retries: int,
    watch: Callable[[Work], None],
    stop: Callable[[], bool],
) -> Work:
    """Run all unfinished trials, ``workers`` at a time, until all are finished or ``stop()`` is true.

    A trial whose process dies resumes from its latest checkpoint after a pause. ``retries`` limits consecutive attempts
    without a new checkpoint.
    """
    finished = [trial for trial in sweep.trials if folder.progress(trial).finished]
    work = Work([trial for trial in sweep.trials if trial not in finished], done=finished)
    scheduler = _Scheduler(work, folder, engine, retries)
    try:
        while not work.is_over and not stop():
            scheduler.collect()
            scheduler.start(workers)
            watch(work)
            time.sleep(POLL)
    finally:
        scheduler.stop(watch)
    return work


class _Scheduler:
    """Starts trials and handles those whose process has ended."""

    def __init__(self, work: Work, folder: SweepFolder, engine: Engine, retries: int) -> None:
        self._work, self._folder, self._engine, self._retries = work, folder, engine, retries
        self._attempts = {trial: Attempt() for trial in work.waiting}

    def start(self, workers: int) -> None:
        """Start trials until all workers are busy."""
        work, now = self._work, time.monotonic()
        for trial in [trial for trial in work.waiting if self._attempts[trial].not_before <= now]:
            if len(work.running) >= workers:
                return
            attempt = self._attempts[trial]
            if is_locked(self._folder.run(trial)):
                attempt.not_before = now + FIRST_PAUSE
                work.notes[trial] = (
                    f"waits for another process that uses {self._folder.run(trial)}: "
                    f"a worker of a killed sweep may take up to {duration(GRACE)} to save"
                )
                continue
            work.waiting.remove(trial)
            work.notes.pop(trial, None)
            attempt.checkpoint = self._folder.checkpoint(trial)
            try:
                work.running[trial] = self._engine.start(trial, self._folder)
            except OSError as error:  # cannot create its log or its process
                self._handle_exit(trial, code_of(error), str(error))

    def collect(self) -> None:
        """Handle the trials that have ended."""
        for trial, job in list(self._work.running.items()):
            code = job.poll()
            if code is not None:
                del self._work.running[trial]
                self._handle_exit(trial, code, self._folder.message(trial))

    def stop(self, watch: Callable[[Work], None]) -> None:
        """Ask all running trials to save and exit. Kill those that do not exit in time."""
        work = self._work
        for trial, job in work.running.items():
            job.stop()
            work.notes[trial] = f"was asked to save and exit: it is killed after {duration(GRACE)}"
        asked = time.monotonic()
        while work.running and time.monotonic() < asked + KILL_AFTER:
            watch(work)
            for trial, job in list(work.running.items()):
                if job.wait(POLL):
                    self._mark_stopped(trial, killed=time.monotonic() >= asked + GRACE)
        for trial, job in list(work.running.items()):
            job.kill()
            self._mark_stopped(trial, killed=True)

    def _mark_stopped(self, trial: Trial, *, killed: bool) -> None:
        work = self._work
        del work.running[trial], work.notes[trial]
        if self._folder.progress(trial).finished:
            work.done.append(trial)
            return
        work.waiting.append(trial)
        if killed:
            work.notes[trial] = (
                "did not stop when asked, perhaps stuck in its environment, and was killed: "
                "it will resume from its latest checkpoint"
            )

    def _handle_exit(self, trial: Trial, code: int, log_line: str) -> None:
        """Handle the end of a process. Its files, not its exit code, decide whether the trial is done."""
        work, attempt = self._work, self._attempts[trial]
        if self._folder.progress(trial).finished:
            work.done.append(trial)
            return
        made_progress = self._folder.checkpoint(trial) > attempt.checkpoint
        attempt.failures = 1 if made_progress else attempt.failures + 1
        why = self._why(code)
        if code in NOT_RETRIED or attempt.failures > self._retries:
            work.failed[trial] = why or log_line or f"ended with exit code {code}"
            return
        first = DISK_PAUSE if code == DISK_FULL else FIRST_PAUSE
        pause = min(LONGEST_PAUSE, first * 2 ** (attempt.failures - 1))
        attempt.not_before = time.monotonic() + pause
        why = why or f"it ended with exit code {code} ({self._folder.log(trial)})"
        work.notes[trial] = f"restarts after {duration(pause)}: {why}"
        work.waiting.insert(0, trial)

    def _why(self, code: int) -> str | None:
        """Explain why a process ended before its trial was finished, unless the last line of its log does."""
        if code == 0:
            return "it ended with exit code 0, but its run is not finished"
        if code == DISK_FULL:
            return f"its files could not be written to {self._folder.disk()}. Free some space, then rerun the command"
        if code == WORKER_LOST:
            return "its node or Ray itself is gone"
        if code < 0:
            with suppress(ValueError):
                return f"it was killed ({signal.Signals(-code).name})"
        return None
