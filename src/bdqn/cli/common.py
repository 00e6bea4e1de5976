"""Code that several commands share."""

from __future__ import annotations

import math
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """Raised when a run cannot continue. The message says why and what was saved."""

    code = exit_codes.FAILED


class RunCrashed(RunFailed):
    """Raised after an unexpected error whose traceback was printed."""

    code = exit_codes.CRASHED


class NotSaved(RunFailed):
    """Raised when a run's files could not be written."""

    code = exit_codes.DISK_FULL


@contextmanager
def disk_errors(then: Callable[[], str] = lambda: "try again") -> Iterator[None]:
    """Turn errors of a full or broken disk in the block into NotSaved, whose code lets a sweep retry.

    ``then`` returns what to do after freeing some space.
    """
    try:
        yield
    except OSError as error:
        from bdqn.envs import blamed

        if exit_codes.code_of(error) != exit_codes.DISK_FULL or blamed(error):
            raise
        raise NotSaved(f"Cannot write to the disk ({error}): free some space and {then()}.") from error


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn errors in the block into SettingError: they come from user input, and their message suffices."""
    try:
        with disk_errors():
            yield
    except (SettingError, NotSaved):
        raise
    except SystemExit as end:  # from a module or an environment that the user named
        raise SettingError(f"The environment called sys.exit({end.code!r}).") from end
    except Exception as error:
        import gymnasium.error  # imported here, because --help needs no Gymnasium

        from bdqn.envs import blamed
        from bdqn.qlearning.finite_checks import NonFiniteError

        if reason := blamed(error):
            raise SettingError(reason) from error
        kinds = (ValueError, TypeError, ImportError, OSError, OverflowError, NonFiniteError, gymnasium.error.Error)
        if isinstance(error, kinds):
            raise SettingError(str(error)) from error
        raise


def known_cause(error: Exception) -> str | None:
    """Explain why a run cannot continue; None for an unexpected error, which needs its traceback."""
    from bdqn.bayes.numerics import PosteriorError
    from bdqn.envs import BadAnswer, blamed
    from bdqn.qlearning.finite_checks import NonFiniteError

    return str(error) if isinstance(error, NonFiniteError | PosteriorError | BadAnswer) else blamed(error)


@contextmanager
def short_warnings() -> Iterator[None]:
    """Print bdqn's own warnings in the block on one line, without a source location."""
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
class Invocation:
    """A command line, with its working directory and start time. An environment may change the directory later."""

    command: str
    here: Path
    began: float  # monotonic clock

    @classmethod
    def of(cls, verb: str, argv: Sequence[str]) -> Invocation:
        """Capture the current invocation. Arguments must be valid UTF-8, because a run's files contain them."""
        for word in argv:
            try:
                word.encode()
            except UnicodeEncodeError:
                raise SettingError(f"{word!r} is not valid UTF-8: choose another name.") from None
        return cls(shlex.join(["bdqn", verb, *argv]), Path.cwd(), time.monotonic())

    def deadline(self, minutes: float | None) -> float:
        """Return the time, on the monotonic clock, at which a process with this limit must stop."""
        return math.inf if minutes is None else self.began + 60 * minutes


def prepare_torch(device: str, family: str, threads: int | None = None) -> None:
    """Check the device and set the number of threads: small networks are faster with one."""
    from bdqn.networks.device import check_device, use_threads
    from bdqn.networks.threads import best_threads

    check_device(device)
    use_threads(threads or best_threads(family))


def load_to_play(path: Path, env: str | None, device: str = "cpu", *, best: bool = False) -> Learner:
    """Load a trained agent for playing only, with a small replay buffer."""
    from bdqn.storage import checkpoint_files
    from bdqn.storage.saved_agents import find_agent, load

    folder = find_agent(path, best=best)
    about = checkpoint_files.read(folder).about
    # One observation at a time: a second thread saves a fifth of the time on a free machine, and multiplies it on a
    # busy one, where the two wait for each other.
    prepare_torch(device, about["family"], threads=1)
    return load(folder, env, device=device, buffer_size=min(about["settings"].get("buffer_size", 10_000), 10_000))


def runs_at(places: Sequence[str]) -> list[Path]:
    """Find the runs, sweeps and kept results at or below these places, each once. Prints what it finds.

    A place without any is returned itself, so that its reader reports the problem.
    """
    from bdqn.report.find import distinct, find

    with user_errors():
        found = [find(Path(place)) for place in places]
    for summary in filter(None, map(str, found)):
        say(summary, file=sys.stderr)
    return distinct(folder for one in found for folder in one.folders or [one.place])


def say(text: object, file: TextIO | None = None) -> None:
    """Print a line that may contain untrusted text: names, paths, messages."""
    print(printable(text), file=file or sys.stdout, flush=True)


def print_rows(rows: Mapping[str, str]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, rows))
    for name, value in rows.items():
        say(f"  {name:<{width}}  {value}")
