"""Progress of a run: a bar in a terminal, lines in a file, or nothing."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich import progress as rich

    from bdqn.runs.evaluation import Evaluation


@contextmanager
def ignoring_output_errors(stream: TextIO) -> Iterator[None]:
    """Ignore output errors in the block. A closed pipe, a full disk or a closed stream must not stop training."""
    try:
        yield
        stream.flush()
    except (OSError, ValueError) as error:  # ValueError: the stream is closed
        _drop_pending_output(stream, for_good=isinstance(error, BrokenPipeError))


def silence(stream: TextIO) -> None:
    """Redirect a stream that cannot be written to /dev/null."""
    _drop_pending_output(stream, for_good=True)


def _drop_pending_output(stream: TextIO, *, for_good: bool) -> None:
    """Empty the buffer of a failed stream: Python would retry at exit and change the exit code."""
    with suppress(OSError, ValueError):
        kept = os.dup(stream.fileno())
        try:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
            stream.flush()
            if not for_good:  # a full disk may have space for the next line
                os.dup2(kept, stream.fileno())
        finally:
            os.close(kept)


def reader_is_gone(stream: TextIO) -> bool:
    """Whether a stream is a pipe whose reader has closed it."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError):  # not a file, or closed
        return False
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def notify(message: str) -> None:
    """Print a message for the user to stderr."""
    stream = sys.stderr or sys.stdout  # None if they were closed before the program started
    if stream is not None:
        with ignoring_output_errors(stream):
            print(f"bdqn: {message}", file=stream)


class Progress(Protocol):
    """A progress display. Call ``show`` about once per ``interval`` seconds, and ``log`` for every event."""

    @property
    def interval(self) -> float: ...

    def show(self, step: int, mean_return: float | None) -> None: ...

    def log(self, event: str) -> None: ...


class Silent:
    """Shows nothing."""

    interval = float("inf")

    def show(self, step: int, mean_return: float | None) -> None: ...

    def log(self, event: str) -> None: ...


class Lines:
    """Prints a line every few seconds, for files and pipes."""

    interval = 5.0

    def __init__(self, total: int) -> None:
        self._total = total
        self._last = (0, time.monotonic())

    def show(self, step: int, mean_return: float | None) -> None:
        before, then = self._last
        now = time.monotonic()
        self._last = (step, now)
        if step == before or not before:  # at the first step there is no rate yet
            return
        self.log(progress_line(step, self._total, mean_return, rate(step - before, now - then)))

    def log(self, event: str) -> None:
        with ignoring_output_errors(sys.stdout):
            print(event)


class NotebookLine:
    """A line of a notebook cell that changes in place, above those of events."""

    interval = 0.5

    def __init__(self, total: int, first: int) -> None:
        from IPython.display import display  # the notebook has it

        self._total, self._first, self._start = total, first, time.monotonic()
        self._handle: Any = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, step: int, mean_return: float | None) -> None:
        pace = rate(step - self._first, time.monotonic() - self._start)
        done = round(20 * step / self._total)
        line = f"[{'#' * done}{'.' * (20 - done)}] {progress_line(step, self._total, mean_return, pace)}"
        self._handle.update({"text/plain": line}, raw=True)

    def log(self, event: str) -> None:
        print(event)


class Bar:
    """A progress bar of rich, with metrics beside it and events above it."""

    interval = 0.2

    def __init__(self, display: rich.Progress) -> None:
        self._display = display

    def show(self, step: int, mean_return: float | None) -> None:
        task = self._display.tasks[0]
        pace = f"{task.speed:,.0f}" if task.speed else "-"
        with ignoring_output_errors(sys.stdout):
            self._display.update(task.id, completed=step, mean_return=format_return(mean_return), rate=pace)

    def log(self, event: str) -> None:
        with ignoring_output_errors(sys.stdout):
            self._display.console.print(event, highlight=False, markup=False)


@contextmanager
def progress(total: int, *, quiet: bool, first: int = 0) -> Iterator[Progress]:
    """Choose the display that suits the output, for ``total`` decisions, of which ``first`` were taken before."""
    if quiet:
        yield Silent()
    elif in_notebook():
        yield NotebookLine(total, first)
    elif sys.stdout.isatty():
        with _bar(total, first) as bar:
            yield bar
    else:
        yield Lines(total)


@contextmanager
def _bar(total: int, first: int) -> Iterator[Progress]:
    from rich import progress as rich

    columns = (
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TextColumn("mean return {task.fields[mean_return]}, {task.fields[rate]} steps/s,"),
        rich.TimeRemainingColumn(),
        rich.TextColumn("left"),
    )
    display = rich.Progress(*columns)
    display.add_task("train", total=total, completed=first, mean_return="-", rate="-")
    with ignoring_output_errors(sys.stdout):
        display.start()
    try:
        yield Bar(display)
    finally:
        with ignoring_output_errors(sys.stdout):
            display.stop()


def in_notebook() -> bool:
    """Whether output goes to a notebook: its kernel runs this program. IPython's terminal is a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def progress_line(step: int, total: int, mean_return: float | None, pace: float) -> str:
    """Say how far training is, on one line."""
    left = f"{duration((total - step) / pace)} left" if pace else "time left unknown"
    return f"{step:,} of {total:,} steps, mean return {format_return(mean_return)}, {pace:,.0f} steps/s, {left}"


def evaluation_line(step: int, result: Evaluation) -> str:
    """Say what an evaluation found, on one line."""
    cut = f", {result.cut} truncated" if result.cut else ""
    scores = f"mean return {format_return(result.mean)}, std {format_return(result.std)}"
    return f"Evaluation after {step:,} steps: {scores} ({len(result.returns)} episodes{cut})"


def duration(seconds: float) -> str:
    """Format a duration: 42 s, 12 min, 3.4 h, 5.1 days."""
    for size, unit, digits in ((86_400, "days", 1), (3_600, "h", 1), (60, "min", 0)):
        if seconds >= size * 1.5:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def rate(count: float, seconds: float) -> float:
    """Return the count per second; 0 if no time has passed."""
    return count / seconds if seconds > 0 else 0.0


def format_return(value: float | None) -> str:
    """Format a return with about three significant digits, whether large or a fraction."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
