"""How a run shows that it is getting on: a bar in a terminal, lines in a file, or nothing."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich import progress as rich


@contextmanager
def unheard_is_fine(stream: TextIO) -> Iterator[None]:
    """Print in here: a reader that has left, a full disk or a closed stream is no reason to stop training."""
    try:
        yield
        stream.flush()
    except (OSError, ValueError) as error:  # the latter from a stream that is closed
        _discard_what_waits(stream, for_good=isinstance(error, BrokenPipeError))


def silence(stream: TextIO) -> None:
    """Let a stream that cannot be written to lead nowhere from now on."""
    _discard_what_waits(stream, for_good=True)


def _discard_what_waits(stream: TextIO, *, for_good: bool) -> None:
    """Empty a stream that could not be written to: Python would try again at its end, and end with another code."""
    with suppress(OSError, ValueError):
        kept = os.dup(stream.fileno())
        try:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
            stream.flush()
            if not for_good:  # a disk that is full now may have room for the next line
                os.dup2(kept, stream.fileno())
        finally:
            os.close(kept)


def is_unheard(stream: TextIO) -> bool:
    """Whether a stream is a pipe whose reader has left."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError):  # no file, or a closed one
        return False
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def tell(message: str) -> None:
    """Something that the user should know, wherever the output goes."""
    stream = sys.stderr or sys.stdout  # which are None where they were closed before this program began
    if stream is not None:
        with unheard_is_fine(stream):
            print(f"bdqn: {message}", file=stream)


class Progress(Protocol):
    """Something that wants to be told about once per ``interval`` seconds, and of events when they happen."""

    @property
    def interval(self) -> float: ...

    def show(self, step: int, mean_return: float | None) -> None: ...

    def tell(self, event: str) -> None: ...


class Silent:
    """Says nothing."""

    interval = float("inf")

    def show(self, step: int, mean_return: float | None) -> None: ...

    def tell(self, event: str) -> None: ...


class Lines:
    """A line every few seconds, for output that is kept or piped."""

    interval = 5.0

    def __init__(self, total: int) -> None:
        self._total = total
        self._last = (0, time.monotonic())

    def show(self, step: int, mean_return: float | None) -> None:
        before, then = self._last
        now = time.monotonic()
        self._last = (step, now)
        if step == before or not before:  # the first call comes at the first step: there is no rate yet
            return
        pace = rate(step - before, now - then)
        left = f"{duration((self._total - step) / pace)} left" if pace else "time left unknown"
        self.tell(f"{step:,} of {self._total:,} steps, mean return {figure(mean_return)}, {pace:,.0f} steps/s, {left}")

    def tell(self, event: str) -> None:
        with unheard_is_fine(sys.stdout):
            print(event)


class Bar:
    """A bar of rich's, with figures beside it and events above it."""

    interval = 0.2

    def __init__(self, display: rich.Progress) -> None:
        self._display = display

    def show(self, step: int, mean_return: float | None) -> None:
        task = self._display.tasks[0]
        pace = f"{task.speed:,.0f}" if task.speed else "-"
        with unheard_is_fine(sys.stdout):
            self._display.update(task.id, completed=step, mean_return=figure(mean_return), rate=pace)

    def tell(self, event: str) -> None:
        with unheard_is_fine(sys.stdout):
            self._display.console.print(event, highlight=False, markup=False)


@contextmanager
def progress(total: int, *, quiet: bool) -> Iterator[Progress]:
    """The display that suits where the output goes."""
    if quiet:
        yield Silent()
    elif sys.stdout.isatty():
        with _bar(total) as bar:
            yield bar
    else:
        yield Lines(total)


@contextmanager
def _bar(total: int) -> Iterator[Progress]:
    from rich import progress as rich

    columns = (
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TextColumn("mean return {task.fields[mean_return]}, {task.fields[rate]} steps/s,"),
        rich.TimeRemainingColumn(),
        rich.TextColumn("left"),
    )
    display = rich.Progress(*columns)
    display.add_task("train", total=total, mean_return="-", rate="-")
    with unheard_is_fine(sys.stdout):
        display.start()
    try:
        yield Bar(display)
    finally:
        with unheard_is_fine(sys.stdout):
            display.stop()


def duration(seconds: float) -> str:
    """A time as a person would say it: 42 s, 12 min, 3.4 h, 5.1 days."""
    for size, unit, digits in ((86_400, "days", 1), (3_600, "h", 1), (60, "min", 0)):
        if seconds >= size * 1.5:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def rate(count: float, seconds: float) -> float:
    """How many per second; 0 where the clock stands still."""
    return count / seconds if seconds > 0 else 0.0


def figure(value: float | None) -> str:
    """A return with three digits that mean something, whether it is in the thousands or a share of one."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
