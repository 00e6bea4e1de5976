"""Failing environments: name the cause, replace the environment, and interrupt steps that hang."""

from __future__ import annotations

import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym

from bdqn.envs.answers import EnvironmentWarning
from bdqn.envs.interaction import Restart

_NOTE = "In the environment: "
Remake = Callable[[int, int], tuple[gym.Env[Any, Any], int]]  # index, number of the restart -> new environment, seed


class StepTimeout(RuntimeError):
    """A step exceeded its time limit."""


class CannotTime(RuntimeError):
    """Steps cannot be timed here; the environment is not to blame."""


class Supervisor:
    """Replace failing environments, a limited number of times, and interrupt steps that take too long."""

    def __init__(self, most_restarts: int, step_timeout: float | None, remake: Remake) -> None:
        """A step may take ``step_timeout`` seconds; None means no limit."""
        self.most_restarts, self.step_timeout, self._remake = most_restarts, step_timeout, remake
        self.restarts = 0

    def step(self, env: gym.Env[Any, Any], action: int) -> Any:
        """Take a step, and interrupt it after the time limit."""
        return self._in_time(lambda: env.step(action))

    @property
    def may_restart(self) -> bool:
        return self.restarts < self.most_restarts

    def replace(self, i: int, env: gym.Env[Any, Any]) -> tuple[gym.Env[Any, Any], int]:
        """Close environment ``i``, ignoring errors, and make a new one; return it with its seed."""
        self.restarts += 1
        with suppress(Exception):
            self._in_time(env.close)
        return self._remake(i, self.restarts)

    def report(self, restarts: Sequence[Restart]) -> None:
        """Warn of the environments that were just replaced, with the reasons."""
        for number, restart in enumerate(restarts, self.restarts - len(restarts) + 1):
            warnings.warn(
                f"Environment {restart.env} was restarted ({number} of {self.most_restarts}): {restart.reason}",
                EnvironmentWarning,
                stacklevel=3,
            )

    def _in_time(self, call: Callable[[], Any]) -> Any:
        if self.step_timeout is None:
            return call()
        with time_limit(self.step_timeout):
            return call()


def can_be_timed() -> bool:
    """Whether `time_limit` works here."""
    return threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise StepTimeout within this context after so many seconds.

    It uses a signal and works only in the main thread. C code that never returns to Python is not interrupted.
    """
    if not can_be_timed():
        raise CannotTime("step_timeout uses a signal, which needs the main thread on Linux or macOS.")
    before = signal.signal(signal.SIGALRM, _ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Alarm as alarm:
        *_, late, _ring_itself = traceback.extract_tb(alarm.__traceback__)
        raise StepTimeout(f"it had not finished after {seconds:g} s ({_place(late)})") from None
    finally:
        signal.signal(signal.SIGALRM, before)


class _Alarm(BaseException):
    """Not an Exception, because an environment may catch those."""


def _ring(_signal: int, _frame: FrameType | None) -> None:
    raise _Alarm


def blame(error: Exception, what: str) -> str:
    """Add a note to an error: an environment's own code raised it in ``what``. Return the note."""
    frames = traceback.extract_tb(error.__traceback__)
    where = "" if isinstance(error, StepTimeout) or not frames else f" ({_place(frames[-1])})"
    note = f"{what} raised {type(error).__name__}: {_text(error)}{where}."
    error.add_note(_NOTE + note)
    return note


def _text(error: Exception) -> str:
    """The text of an error. Its class may be the environment's own, so str() may fail."""
    try:
        return str(error)
    except Exception as another:
        return f"(its text raised {type(another).__name__})"


def lasting(error: Exception) -> Exception:
    """The error, or a RuntimeError for StopIteration, which a generator would take for its own end."""
    if not isinstance(error, StopIteration):
        return error
    other = RuntimeError(f"the environment raised {error!r}")
    for note in getattr(error, "__notes__", ()):
        other.add_note(note)
    return other


def blamed(error: BaseException) -> str | None:
    """The note that `blame` added, if an environment raised this error."""
    notes = getattr(error, "__notes__", ())
    return next((note.removeprefix(_NOTE) for note in notes if note.startswith(_NOTE)), None)


def _place(frame: traceback.FrameSummary) -> str:
    return f"{Path(frame.filename).name}, line {frame.lineno}"
