"""How a run shows that it is getting on: a bar in a terminal, lines in a file, or nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich import progress as rich


@contextmanager
def unheard_is_fine(stream: TextIO) -> Iterator[None]:
    """Print in here: if nobody reads on, as after ``| head``, or a disk is full, training need not stop."""
    try:
        yield
        stream.flush()
    except OSError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """Let a stream that cannot be written lead nowhere, or Python would try again when it ends, and complain."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class Progress(Protocol):
    """Something that wants to be told about once per ``interval`` seconds."""

    @property
    def interval(self) -> float: ...

    def show(self, step: int, mean_return: float | None) -> None: ...


class Silent:
    """Says nothing."""

    interval = float("inf")

    def show(self, step: int, mean_return: float | None) -> None: ...


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
        rate = (step - before) / (now - then)
        left = duration((self._total - step) / rate)
        figures = f"mean return {_figure(mean_return)}, {rate:,.0f} steps/s, {left} left"
        with unheard_is_fine(sys.stdout):
            print(f"{step:,} of {self._total:,} steps, {figures}")


class Bar:
    """A bar of rich's, with figures beside it."""

    interval = 0.2

    def __init__(self, display: rich.Progress) -> None:
        self._display = display

    def show(self, step: int, mean_return: float | None) -> None:
        task = self._display.tasks[0]
        rate = f"{task.speed:,.0f}" if task.speed else "-"
        self._display.update(task.id, completed=step, mean_return=_figure(mean_return), rate=rate)


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
    with rich.Progress(*columns) as display:
        display.add_task("train", total=total, mean_return="-", rate="-")
        yield Bar(display)


def duration(seconds: float) -> str:
    """A time as a person would say it: 42 s, 12 min, 3.4 h, 5.1 days."""
    for size, unit, digits in ((86_400, "days", 1), (3_600, "h", 1), (60, "min", 0)):
        if seconds >= size * 1.5:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def _figure(mean_return: float | None) -> str:
    return "-" if mean_return is None else f"{mean_return:,.1f}"
