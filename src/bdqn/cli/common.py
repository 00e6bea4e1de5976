"""What several verbs do alike."""

from __future__ import annotations

import math
import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from bdqn.config.settings import SettingError
from bdqn.runs import exit_codes
from bdqn.storage.safe_files import printable

if TYPE_CHECKING:
    from bdqn.learner import Learner


class RunFailed(RuntimeError):
    """A run that could not go on; the message says why, and what is left of it."""

    code = exit_codes.FAILED


class RunCrashed(RunFailed):
    """An error that nobody foresaw, whose traceback has been shown."""

    code = exit_codes.CRASHED


class NotSaved(RunFailed):
    """A run whose files the disk refused."""

    code = exit_codes.DISK_FULL


@contextmanager
def correctable() -> Iterator[None]:
    """Errors in here come from what the user asked for, so their message is enough."""
    try:
        yield
    except SettingError:
        raise
    except SystemExit as end:  # no code of ours: that of a module or an environment which was asked for
        raise SettingError(f"Code of the environment ended the program: sys.exit({end.code!r}).") from end
    except Exception as error:
        import gymnasium.error  # here, because help needs no Gymnasium, nor torch

        from bdqn.envs import blamed
        from bdqn.qlearning.finite_checks import NonFiniteError

        if reason := blamed(error):
            raise SettingError(reason) from error
        if exit_codes.code_of(error) == exit_codes.DISK_FULL:  # which a sweep may try again
            raise NotSaved(f"The disk cannot be written ({error}): make room, and try again.") from error
        kinds = (ValueError, TypeError, ImportError, OSError, OverflowError, NonFiniteError, gymnasium.error.Error)
        if isinstance(error, kinds):
            raise SettingError(str(error)) from error
        raise


def foreseen(error: Exception) -> str | None:
    """Why a run cannot go on, in a sentence; None for a defect of ours, whose traceback is wanted."""
    from bdqn.bayes.posterior import PosteriorError
    from bdqn.envs import BadAnswer, blamed
    from bdqn.qlearning.finite_checks import NonFiniteError

    return str(error) if isinstance(error, NonFiniteError | PosteriorError | BadAnswer) else blamed(error)


@contextmanager
def short_warnings() -> Iterator[None]:
    """Our own warnings in here are lines like our errors, without a place in our code."""
    usual = warnings.formatwarning

    def short(message: Warning | str, category: type[Warning], *place: Any, **rest: Any) -> str:
        if not category.__module__.startswith("bdqn."):
            return usual(message, category, *place, **rest)
        return f"bdqn: {printable(message)}\n"

    warnings.formatwarning = short
    try:
        yield
    finally:
        warnings.formatwarning = usual


@dataclass(frozen=True)
class Start:
    """How, where and when a command was given. Paths and time count from there, wherever an environment may go."""

    command: str
    here: Path
    began: float  # of the monotonic clock

    @classmethod
    def of(cls, verb: str, argv: Sequence[str]) -> Start:
        """Now; words that are no UTF-8 are refused, because a run's files could not say them."""
        for word in argv:
            try:
                word.encode()
            except UnicodeEncodeError:
                raise SettingError(f"{word!r} is not valid UTF-8: choose another name.") from None
        return cls(shlex.join(["bdqn", verb, *argv]), Path.cwd(), time.monotonic())

    def deadline(self, minutes: float | None) -> float:
        """When a process that may take so many minutes must end."""
        return math.inf if minutes is None else self.began + 60 * minutes


def prepare_torch(device: str, family: str, threads: int | None = None) -> None:
    """See that the device can be used, and choose the threads: small networks are faster on one."""
    from bdqn.networks.device import check_device, use_threads
    from bdqn.networks.threads import best_threads

    check_device(device)
    use_threads(threads or best_threads(family))


def load_to_play(path: Path, env: str | None, device: str = "cpu", *, best: bool = False) -> Learner:
    """A trained agent that will not learn, so it needs no large memory."""
    from bdqn.storage import checkpoint_files
    from bdqn.storage.saved_agents import find_agent, load

    folder = find_agent(path, best=best)
    about = checkpoint_files.read(folder).about
    prepare_torch(device, about["family"])
    return load(folder, env, device=device, buffer_size=min(about["settings"].get("buffer_size", 10_000), 10_000))


def runs_at(places: Sequence[str]) -> list[Path]:
    """The runs, sweeps and kept results at or below these places, each once; how many lie below one is said.

    A place without any stands for itself: whoever reads it knows what to say of it.
    """
    from bdqn.report.find import distinct, find

    with correctable():
        found = [find(Path(place)) for place in places]
    for said in filter(None, map(str, found)):
        say(said, file=sys.stderr)
    return distinct(folder for one in found for folder in one.folders or [one.place])


def say(text: object, file: TextIO | None = None) -> None:
    """Print a line that may hold text from files: names, paths, messages."""
    print(printable(text), file=file or sys.stdout, flush=True)


def print_rows(rows: Mapping[str, str]) -> None:
    """Names and values in two columns."""
    width = max(map(len, rows))
    for name, value in rows.items():
        say(f"  {name:<{width}}  {value}")
