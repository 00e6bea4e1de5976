"""What ``bdqn train`` and ``bdqn resume`` do alike: run to the end or to an interruption, and say what came of it."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from bdqn.agents import AGENTS
from bdqn.bayes.numerics import PosteriorError
from bdqn.cli.common import NotSaved, RunCrashed, RunFailed, print_rows, say
from bdqn.config.memory import ran_out
from bdqn.config.settings import SettingError
from bdqn.envs import BadAnswer, describe
from bdqn.qlearning.finite_checks import NonFiniteError
from bdqn.runs import exit_codes
from bdqn.runs.directory import DirectoryLost, DirectoryRemoved
from bdqn.runs.hints import Directions
from bdqn.runs.progress import figure, progress, rate, unheard_is_fine
from bdqn.runs.training import train
from bdqn.storage.checkpoints import Checkpoints

if TYPE_CHECKING:
    from bdqn.learner import Learner
    from bdqn.runs.schedule import Schedule
    from bdqn.runs.writer import RunRecord


def train_recorded(
    learner: Learner,
    steps: int,
    record: RunRecord,
    checkpoints: Checkpoints,
    schedule: Schedule,
    *,
    quiet: bool,
    run: str = "",
    deadline: float = math.inf,
) -> int:
    """Train until ``steps`` decisions are taken, a signal, or a time of the monotonic clock; returns the exit code.

    ``run`` is what the user calls the run's directory.
    """
    began_at, began, promised = learner.num_timesteps, record.seconds, record.folder
    go_on = Directions(run or str(promised), learner.env_name)
    with record:
        with (
            _explained(learner, record, checkpoints, schedule, go_on),
            progress(steps, quiet=quiet) as display,
            interruptible() as asked,
        ):
            stop = asked if math.isinf(deadline) else lambda: asked() or time.monotonic() >= deadline
            complete = train(learner, steps, record, checkpoints, schedule, display, stop)
        record.status = "finished" if complete else "interrupted"
    if record.folder != promised:
        go_on = Directions(str(record.folder), learner.env_name)
    with unheard_is_fine(sys.stdout):
        if not complete:
            reason = "Interrupted" if asked() else "Stopped by --max-minutes"
            print(f"{reason} after {learner.num_timesteps:,} decisions.")
            say(f"Go on with it: {go_on.resume}")
        elif learner.num_timesteps < steps:
            print(f"Reached the score of {schedule.stop_at:g} after {learner.num_timesteps:,} decisions.")
        _conclude(record, rate(learner.num_timesteps - began_at, record.seconds - began), go_on)
    if record.saved != learner.num_timesteps:
        raise NotSaved(f"The last checkpoint could not be written. {_left(checkpoints, go_on)}")
    if record.folder != promised:
        raise RunFailed(f"{promised} was moved while the run went on: its files are in {record.folder}.")
    return 0 if complete else exit_codes.INTERRUPTED if asked() else exit_codes.TIME_IS_UP


@contextmanager
def _explained(
    learner: Learner, record: RunRecord, checkpoints: Checkpoints, schedule: Schedule, go_on: Directions
) -> Iterator[None]:
    """Errors in here end a run: each as a sentence that says why, and what is left of it."""
    try:
        yield
    except SettingError:
        raise
    except DirectoryRemoved as error:
        raise _rescue(error, learner, record, schedule) from error
    except DirectoryLost as error:
        raise RunFailed(f"{_stopped(learner)}: {error}") from error
    except (NonFiniteError, PosteriorError, BadAnswer) as error:
        raise RunFailed(f"{_stopped(learner)}: {error} {_left(checkpoints, go_on)}") from error
    except SystemExit as end:
        what = f"the environment called sys.exit({end.code!r})."
        raise RunFailed(f"{_stopped(learner)}: {what} {_left(checkpoints, go_on)}") from end
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of an environment, perhaps: a cancelled task of asyncio is no Exception
        raise _unforeseen(error, learner, _left(checkpoints, go_on)) from error


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C, a request to terminate or a closed terminal take effect between two steps, where the agent is whole.

    The second Ctrl-C takes effect at once.
    """
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup, a closed terminal is no reason to stop
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def announce(learner: Learner, steps: int, schedule: Schedule, run: str, max_minutes: float | None = None) -> None:
    """Say what begins."""
    configuration = learner.configuration
    agent = configuration.agent
    limits = [
        *([] if schedule.stop_at is None else [f"or until the score is {schedule.stop_at:g}"]),
        *([] if max_minutes is None else [f"for {max_minutes:g} minutes at most"]),
    ]
    rows = {
        "family": configuration.family,
        "preset": f"{configuration.preset} (presets/{configuration.preset}.toml)",
        "protocol": describe(learner.envs.envs[0]),
        "decisions": ", ".join([f"{steps:,} in {learner.envs.num_envs} environment(s)", *limits]),
        "run": run,
        "if interrupted": _prospect(learner, schedule, run),
    }
    with unheard_is_fine(sys.stdout):
        say(f"{AGENTS[agent].summary} ({agent}) on {learner.env_source}, seed {learner.seed}")
        print_rows(rows)


def _prospect(learner: Learner, schedule: Schedule, run: str) -> str:
    """What a resumed run would be like."""
    losses = []
    if not schedule.save_replay:
        losses.append("it will begin with an empty replay memory (--save-replay false)")
    reason = learner.envs.unrestorable()
    if reason:
        losses.append(f"it will begin a new episode ({reason})")
    how = "but " + " and ".join(losses) if losses else "exactly where it was"
    return f"{Directions(run, learner.env_name).resume} goes on, {how}"


def _conclude(record: RunRecord, pace: float, go_on: Directions) -> None:
    mean = "no episode ended" if record.mean_return is None else figure(record.mean_return)
    print(f"Mean return of the last 100 episodes: {mean}")
    print(f"Speed: {pace:,.0f} steps/s")
    say(f"Files: {go_on.run}")
    say(f"Evaluate it: {go_on.evaluate}")


def _stopped(learner: Learner) -> str:
    return f"Stopped after {learner.num_timesteps:,} decisions"


def _left(checkpoints: Checkpoints, go_on: Directions) -> str:
    """What there is to go back to."""
    generations = []
    with suppress(OSError):  # such as too many open files
        generations = checkpoints.generations()
    if not generations:
        return "No checkpoint had been written yet."
    latest = Path(go_on.run, *generations[-1].parts[-2:])
    return f"The latest checkpoint is {latest}; {go_on.resume} goes on from there."


def _unforeseen(error: BaseException, learner: Learner, left: str) -> RunFailed:
    """What an error means for the run; that of an environment is shown as its author needs it."""
    if ran_out(error):
        place, lower = " in a refit", "posterior_batch_size or features"
        if not learner.agent.fit_due:
            place, lower = "", "buffer_size, batch_size or features"
        return RunFailed(
            f"{_stopped(learner)}: there was not enough memory{place} ({error}). Free some, or begin a new run with a "
            f"lower {lower}. {left}"
        )
    with unheard_is_fine(sys.stderr):
        traceback.print_exception(error)
    return RunCrashed(f"{_stopped(learner)} by {type(error).__name__}: {error} (traceback above). {left}")


def _rescue(error: DirectoryRemoved, learner: Learner, record: RunRecord, schedule: Schedule) -> RunFailed:
    """Write what is in memory into a new directory: the tables, and a checkpoint from which the run goes on."""
    place = record.folder
    if place.exists():  # somebody else's, then
        place = place.with_name(f"{place.name}_rescued_{os.getpid()}")
    try:
        record.put_back(place)
        record.sync()
        again = Checkpoints(place / "checkpoints", keep=schedule.keep, save_replay=schedule.save_replay)
        again.save(learner, record.state())
    except OSError as trouble:
        return NotSaved(f"{_stopped(learner)}: {error} It could not be written again: {trouble}.")
    go_on = Directions(str(place), learner.env_name)
    return RunFailed(
        f"{_stopped(learner)}: {error} Its tables and a checkpoint were written again, to {place}; earlier checkpoints "
        f"are gone. {go_on.resume} goes on from there."
    )
