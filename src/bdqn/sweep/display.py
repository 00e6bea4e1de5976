"""Progress of a sweep: a table in a terminal, lines in a file."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bdqn.runs.progress import duration, ignoring_output_errors
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.plan import Sweep, Trial

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from bdqn.sweep.engine import Work

LIVE, LINES = 1.0, 30.0  # seconds between updates
SETTLED, MEMORY = 60.0, 300.0  # seconds before a sweep's own pace is used, and over which it is averaged
MOST_NOTES = 5  # shown at a time
COUNTS = ("done", "running", "waiting", "failed")  # fields of a row


@dataclass(frozen=True)
class Row:
    """One group of trials in one environment."""

    group: str
    env: str
    waiting: int
    running: int
    done: int
    failed: int
    per_second: float


@dataclass(frozen=True)
class Status:
    """Status of a sweep."""

    rows: tuple[Row, ...]
    decisions: int
    total: int
    per_second: float
    notes: tuple[str, ...] = ()  # why trials wait

    @property
    def share(self) -> float:
        """What is done, in percent."""
        return 100 * self.decisions / self.total if self.total else 100.0

    @property
    def time_left(self) -> str:
        if self.decisions == self.total:
            return "nothing"
        return duration((self.total - self.decisions) / self.per_second) if self.per_second else "unknown time"


class Pace:
    """The pace of a whole sweep, including trials that start and end.

    The rates that running trials report vary: before learning starts, a trial is ten times as fast.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def update(self, now: float, decisions: int, at_first: float) -> float:
        """Return the recent decisions per second, or ``at_first`` while there is too little data."""
        self._looks.append((now, decisions))
        while now - self._looks[0][0] > MEMORY:
            self._looks.popleft()
        then, before = self._looks[0]
        if now - then < SETTLED:
            return at_first
        return max(decisions - before, 0) / (now - then)  # a trial whose process died goes back to its checkpoint


class AtRest:
    """Decisions of the trials that do not run: what changes only while they do is read from their files once."""

    def __init__(self, folder: SweepFolder) -> None:
        self._folder = folder
        self._waiting: dict[Trial, int] = {}
        self._done: dict[Trial, int] = {}

    def decisions(self, work: Work) -> tuple[int, int]:
        """Of trials that wait, some of them to be continued; and of those that are done, perhaps early."""
        self._waiting = self._of(work.waiting, self._waiting)
        self._done = self._of(work.done, self._done)
        return sum(self._waiting.values()), sum(self._done.values())

    def _of(self, trials: Sequence[Trial], known: Mapping[Trial, int]) -> dict[Trial, int]:
        return {trial: known[trial] if trial in known else self._read(trial) for trial in trials}

    def _read(self, trial: Trial) -> int:
        return min(self._folder.progress(trial).decisions, trial.steps)


def read_status(sweep: Sweep, folder: SweepFolder, work: Work, pace: Pace, at_rest: AtRest) -> Status:
    """Read the status from the running trials' files."""
    running = {trial: folder.progress(trial) for trial in work.running}
    rows = []
    for env, group in dict.fromkeys((trial.env, trial.group) for trial in sweep.trials):
        mine = [trial for trial in sweep.trials if (trial.env, trial.group) == (env, group)]
        waiting, now, done, failed = (
            sum(trial in those for trial in mine) for those in (work.waiting, running, work.done, work.failed)
        )
        rate = sum(running[trial].per_second for trial in mine if trial in running)
        rows.append(Row(group, env, waiting, now, done, failed, rate))
    waiting, done = at_rest.decisions(work)
    given_up = sum(trial.steps for trial in work.failed)
    decisions = sum(min(progress.decisions, trial.steps) for trial, progress in running.items())
    decisions += waiting + done + given_up
    total = done + given_up + sum(trial.steps for trial in (*work.waiting, *running))
    per_second = pace.update(time.monotonic(), decisions, sum(row.per_second for row in rows))
    return Status(tuple(rows), decisions, total, per_second, tuple(_notes(work)))


def _notes(work: Work) -> Iterator[str]:
    for trial, note in list(work.notes.items())[:MOST_NOTES]:
        yield f"{trial.label} {note}"
    if len(work.notes) > MOST_NOTES:
        yield f"and {len(work.notes) - MOST_NOTES} more wait"


class Watch(Protocol):
    def __call__(self, work: Work) -> None: ...


@contextmanager
def watching(sweep: Sweep, folder: SweepFolder, *, quiet: bool) -> Iterator[Watch]:
    """Yield a function to call often. It updates the display at intervals, and once more at the end."""
    pace, at_rest = Pace(), AtRest(folder)
    if quiet:
        yield lambda work: None
    elif sys.stdout.isatty():
        from rich.live import Live

        with (
            Live(refresh_per_second=4) as live,
            _every(LIVE, lambda work: _update(live, read_status(sweep, folder, work, pace, at_rest))) as watch,
        ):
            yield watch
    else:
        with _every(LINES, lambda work: _print(read_status(sweep, folder, work, pace, at_rest))) as watch:
            yield watch


@contextmanager
def _every(interval: float, show: Watch) -> Iterator[Watch]:
    due = 0.0
    latest: list[Work] = []

    def watch(work: Work) -> None:
        nonlocal due
        latest[:] = [work]
        if time.monotonic() >= due:
            show(work)
            due = time.monotonic() + interval

    yield watch
    for work in latest:
        show(work)


def _update(live: Live, status: Status) -> None:
    live.update(_table(status))


def _table(status: Status) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{status.share:.1f} % of {status.total:,} decisions, {status.time_left} left")
    for name in ("group", "environment", *COUNTS, "decisions/s"):
        table.add_column(name, justify="left" if name in ("group", "environment") else "right")
    for row in status.rows:
        counts = (str(getattr(row, name)) for name in COUNTS)
        names = (Text(row.group), Text(row.env))  # not markup: a name may contain brackets
        table.add_row(*names, *counts, f"{row.per_second:,.0f}" if row.running else "")
    if status.notes:
        table.caption = Text("\n".join(status.notes))
    return table


def _print(status: Status) -> None:
    """Print a line for the sweep and one for every running group."""
    total = [sum(getattr(row, name) for row in status.rows) for name in COUNTS]
    with ignoring_output_errors(sys.stdout):
        print(f"{status.share:5.1f} %  {_line(total, status.per_second)}, {status.time_left} left", flush=True)
        for row in status.rows:
            if row.running:
                counts = [getattr(row, name) for name in COUNTS]
                print(f"         {row.group} on {row.env}: {_line(counts, row.per_second)}", flush=True)
        for note in status.notes:
            print(f"         {note}", flush=True)


def _line(counts: Sequence[int], per_second: float) -> str:
    text = ", ".join(f"{count} {name}" for name, count in zip(COUNTS, counts, strict=True))
    return f"{text}, {per_second:,.0f} decisions/s"
