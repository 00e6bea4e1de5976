"""Environments that fail: whose fault it was, in a sentence; a new one in its place; an end to steps that hang."""

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
Remake = Callable[[int, int], tuple[gym.Env[Any, Any], int]]  # which one, the how-many-th time: a new one and its seed


class StepTimeout(RuntimeError):
    """A step took longer than it may."""


class CannotTime(RuntimeError):
    """Steps cannot be timed here, which is no fault of the environment's."""


class Supervisor:
    """Makes environments that fail anew, a bounded number of times, and interrupts steps that take too long."""

    def __init__(self, most_restarts: int, step_timeout: float | None, remake: Remake) -> None:
        """A step may take ``step_timeout`` seconds; None: as long as it takes."""
        self.most_restarts, self.step_timeout, self._remake = most_restarts, step_timeout, remake
        self.restarts = 0

    def step(self, env: gym.Env[Any, Any], action: int) -> Any:
        """A step, interrupted when its time is up."""
        return self._in_time(lambda: env.step(action))

    @property
    def may_restart(self) -> bool:
        return self.restarts < self.most_restarts

    def replace(self, i: int, env: gym.Env[Any, Any]) -> tuple[gym.Env[Any, Any], int]:
        """Close the environment in place ``i`` as well as that goes; another in its place, and its seed."""
        self.restarts += 1
        with suppress(Exception):
            self._in_time(env.close)
        return self._remake(i, self.restarts)

    def report(self, restarts: Sequence[Restart]) -> None:
        """Say which environments were just made anew, and why."""
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
    """Raise StepTimeout in here after so many seconds.

    By a signal, so in the main thread only; C code that never returns to Python is not interrupted.
    """
    if not can_be_timed():
        raise CannotTime("step_timeout works by a signal, which needs the main thread, on Linux or macOS.")
    before = signal.signal(signal.SIGALRM, _ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Alarm as alarm:
        *_, late, _ring_itself = traceback.extract_tb(alarm.__traceback__)
        raise StepTimeout(f"it was not done after {seconds:g} s ({_place(late)})") from None
    finally:
        signal.signal(signal.SIGALRM, before)


class _Alarm(BaseException):
    """Not an Exception, which an environment may catch."""


def _ring(_signal: int, _frame: FrameType | None) -> None:
    raise _Alarm


def blame(error: Exception, what: str) -> str:
    """Note at an error that an environment's own code raised it, and in ``what``; gives the note."""
    frames = traceback.extract_tb(error.__traceback__)
    where = "" if isinstance(error, StepTimeout) or not frames else f" ({_place(frames[-1])})"
    note = f"{what} raised {type(error).__name__}: {_text(error)}{where}."
    error.add_note(_NOTE + note)
    return note


def _text(error: Exception) -> str:
    """What an error says, if it can say it: its class may be the environment's own."""
    try:
        return str(error)
    except Exception as another:
        return f"(its text raised {type(another).__name__})"


def lasting(error: Exception) -> Exception:
    """An error as it can be raised through a generator, which takes StopIteration for its own end."""
    if not isinstance(error, StopIteration):
        return error
    other = RuntimeError(f"the environment raised {error!r}")
    for note in getattr(error, "__notes__", ()):
        other.add_note(note)
    return other


def blamed(error: BaseException) -> str | None:
    """What `blame` noted, if this is an error of an environment's."""
    notes = getattr(error, "__notes__", ())
    return next((note.removeprefix(_NOTE) for note in notes if note.startswith(_NOTE)), None)


def _place(frame: traceback.FrameSummary) -> str:
    return f"{Path(frame.filename).name}, line {frame.lineno}"
