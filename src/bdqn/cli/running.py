"""Code that ``bdqn train`` and ``bdqn resume`` share: trains to the end or an interruption and prints the result."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from bdqn.agents import AGENTS
from bdqn.bayes.numerics import PosteriorError
from bdqn.cli.common import NotSaved, RunCrashed, RunFailed, print_rows, say
from bdqn.config.memory import is_out_of_memory
from bdqn.config.settings import SettingError
from bdqn.envs import BadAnswer, blamed, describe
from bdqn.qlearning.finite_checks import NonFiniteError
from bdqn.runs import exit_codes
from bdqn.runs.callbacks.loggers import Logger
from bdqn.runs.callbacks.loggers import loggers_of as make_loggers
from bdqn.runs.directory import DirectoryLost, DirectoryRemoved
from bdqn.runs.hints import NextCommands
from bdqn.runs.progress import format_return, ignoring_output_errors, progress, rate
from bdqn.runs.training import train
from bdqn.storage.checkpoints import Checkpoints

if TYPE_CHECKING:
    from bdqn.learner import Learner
    from bdqn.runs.schedule import Schedule
    from bdqn.runs.writer import RunWriter


def loggers_of(args: Namespace, folder: Path) -> list[Logger]:
    """The loggers that the command line names, for the run in a directory."""
    return make_loggers(f"{args.log},tensorboard" if args.tensorboard else args.log, folder)


def run_training(
    learner: Learner,
    steps: int,
    writer: RunWriter,
    checkpoints: Checkpoints,
    schedule: Schedule,
    *,
    quiet: bool,
    run: str = "",
    deadline: float = math.inf,
) -> int:
    """Train up to ``steps`` decisions, a signal or a deadline on the monotonic clock. Returns the exit code.

    ``run`` is the run's directory as the user typed it.
    """
    began_at, began, promised = learner.num_timesteps, writer.seconds, writer.folder
    commands = NextCommands(run or str(promised), learner.env_name)
    with writer:
        with (
            _errors_explained(learner, writer, checkpoints, schedule, commands),
            progress(steps, quiet=quiet) as display,
            interruptible() as asked,
        ):
            stop = asked if math.isinf(deadline) else lambda: asked() or time.monotonic() >= deadline
            complete = train(learner, steps, writer, checkpoints, schedule, display, stop)
        writer.status = "finished" if complete else "interrupted"
    if writer.folder != promised:
        commands = NextCommands(str(writer.folder), learner.env_name)
    with ignoring_output_errors(sys.stdout):
        if not complete:
            reason = "Interrupted" if asked() else "Stopped by --max-minutes"
            print(f"{reason} after {learner.num_timesteps:,} decisions.")
            say(f"Resume it: {commands.resume}")
        elif learner.num_timesteps < steps:
            print(f"Reached {_aim_reached(schedule, writer)} after {learner.num_timesteps:,} decisions.")
        _print_summary(writer, rate(learner.num_timesteps - began_at, writer.seconds - began), commands)
    if writer.saved != learner.num_timesteps:
        raise NotSaved(f"Could not write the last checkpoint. {_latest_checkpoint(checkpoints, commands)}")
    if writer.folder != promised:
        raise RunFailed(f"{promised} was moved during the run: its files are in {writer.folder}.")
    return 0 if complete else exit_codes.INTERRUPTED if asked() else exit_codes.TIME_LIMIT


@contextmanager
def _errors_explained(
    learner: Learner, writer: RunWriter, checkpoints: Checkpoints, schedule: Schedule, commands: NextCommands
) -> Iterator[None]:
    """Turn errors in the block into RunFailed, with the reason and the latest checkpoint."""
    try:
        yield
    except SettingError:
        raise
    except DirectoryRemoved as error:
        raise _rescue(error, learner, writer, schedule) from error
    except DirectoryLost as error:
        raise RunFailed(f"{_stopped(learner)}: {error}") from error
    except (NonFiniteError, PosteriorError, BadAnswer) as error:
        raise RunFailed(f"{_stopped(learner)}: {error} {_latest_checkpoint(checkpoints, commands)}") from error
    except SystemExit as end:
        what = f"the environment called sys.exit({end.code!r})."
        raise RunFailed(f"{_stopped(learner)}: {what} {_latest_checkpoint(checkpoints, commands)}") from end
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an environment may raise CancelledError, which is not an Exception
        raise _unexpected(error, learner, _latest_checkpoint(checkpoints, commands)) from error


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Defer SIGINT, SIGTERM and SIGHUP to the next step boundary, where the agent is consistent.

    A second Ctrl-C takes effect at once.
    """
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores SIGHUP
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _aim_reached(schedule: Schedule, writer: RunWriter) -> str:
    """What ended a run before its last decision."""
    if schedule.max_episodes is not None and writer.episodes >= schedule.max_episodes:
        return f"{writer.episodes:,} episodes"
    return f"the score of {schedule.stop_at:g}"


def announce(learner: Learner, steps: int, schedule: Schedule, run: str, max_minutes: float | None = None) -> None:
    """Print what is about to run."""
    configuration = learner.configuration
    agent = configuration.agent
    limits = [
        *([] if schedule.max_episodes is None else [f"or {schedule.max_episodes:,} episodes"]),
        *([] if schedule.stop_at is None else [f"or until the score reaches {schedule.stop_at:g}"]),
        *([] if max_minutes is None else [f"for at most {max_minutes:g} minutes"]),
    ]
    rows = {
        "family": configuration.family,
        "preset": f"{configuration.preset} (presets/{configuration.preset}.toml)",
        "protocol": describe(learner.envs.envs[0]),
        "decisions": ", ".join([f"{steps:,} in {learner.envs.num_envs} environment(s)", *limits]),
        "run": run,
        "if interrupted": _resume_outlook(learner, schedule, run),
    }
    with ignoring_output_errors(sys.stdout):
        say(f"{AGENTS[agent].summary} ({agent}) on {learner.env_source}, seed {learner.seed}")
        print_rows(rows)


def _resume_outlook(learner: Learner, schedule: Schedule, run: str) -> str:
    """Describe how a resumed run would continue."""
    losses = []
    if not schedule.save_replay:
        losses.append("with an empty replay buffer (--save-replay false)")
    reason = learner.envs.unrestorable()
    if reason:
        losses.append(f"with a new episode ({reason})")
    how = "but " + " and ".join(losses) if losses else "exactly where it stopped"
    return f"{NextCommands(run, learner.env_name).resume} continues, {how}"


def _print_summary(writer: RunWriter, pace: float, commands: NextCommands) -> None:
    mean = "no episode ended" if writer.mean_return is None else format_return(writer.mean_return)
    print(f"Mean return of the last 100 episodes: {mean}")
    print(f"Speed: {pace:,.0f} steps/s")
    say(f"Files: {commands.run}")
    say(f"Evaluate it: {commands.evaluate}")
    say(f"Watch it: {commands.watch}")


def _stopped(learner: Learner) -> str:
    return f"Stopped after {learner.num_timesteps:,} decisions"


def _latest_checkpoint(checkpoints: Checkpoints, commands: NextCommands) -> str:
    """Describe the latest checkpoint and how to resume from it."""
    paths = []
    with suppress(OSError):  # such as too many open files
        paths = checkpoints.paths()
    if not paths:
        return f"No checkpoint was written yet; {commands.resume} starts from the beginning."
    latest = Path(commands.run, *paths[-1].parts[-2:])
    return f"The latest checkpoint is {latest}; {commands.resume} continues from there."


def _unexpected(error: BaseException, learner: Learner, left: str) -> RunFailed:
    """Explain an unexpected error. Prints its traceback, which the author of an environment needs."""
    if is_out_of_memory(error):
        if reason := blamed(error):  # an environment's own shortage: smaller settings of ours do not help
            return RunFailed(f"{_stopped(learner)}: {reason} {left}")
        place, lower = " in a refit", "posterior_batch_size or features"
        if not learner.agent.fit_due:
            place, lower = "", "buffer_size, batch_size or features"
        return RunFailed(
            f"{_stopped(learner)}: out of memory{place} ({error}). Free some memory, or start a new run with a "
            f"smaller {lower}. {left}"
        )
    with ignoring_output_errors(sys.stderr):
        traceback.print_exception(error)
    return RunCrashed(f"{_stopped(learner)} by {type(error).__name__}: {error} (traceback above). {left}")


def _rescue(error: DirectoryRemoved, learner: Learner, writer: RunWriter, schedule: Schedule) -> RunFailed:
    """Write the tables and a checkpoint from memory to a new directory, from which the run can resume."""
    place = writer.folder
    if place.exists():  # another process made it
        place = place.with_name(f"{place.name}_rescued_{os.getpid()}")
    try:
        writer.rewrite(place)
        writer.sync()
        again = Checkpoints(place / "checkpoints", keep=schedule.keep, save_replay=schedule.save_replay)
        again.save(learner, writer.state())
    except OSError as failure:
        return NotSaved(f"{_stopped(learner)}: {error} Could not write it again: {failure}.")
    commands = NextCommands(str(place), learner.env_name)
    return RunFailed(
        f"{_stopped(learner)}: {error} Its tables and a new checkpoint were written to {place}; earlier checkpoints "
        f"are gone. {commands.resume} continues from there."
    )
