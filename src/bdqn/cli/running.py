"""What ``bdqn train`` and ``bdqn resume`` do alike: run to the end or to an interruption, and say what came of it."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from bdqn.agents import AGENTS
from bdqn.cli.common import RunFailed, foreseen, print_rows
from bdqn.envs import describe
from bdqn.progress import progress, unheard_is_fine
from bdqn.run import train

if TYPE_CHECKING:
    from bdqn.checkpoint import Checkpoints
    from bdqn.learner import Learner
    from bdqn.record import RunRecord
    from bdqn.schedule import Schedule


def train_recorded(
    learner: Learner, steps: int, record: RunRecord, checkpoints: Checkpoints, schedule: Schedule, *, quiet: bool
) -> int:
    """Train until ``steps`` decisions are taken, or a signal; returns the exit code."""
    began_at, began = learner.num_timesteps, record.seconds
    with record:
        try:
            with progress(steps, quiet=quiet) as display, interruptible() as stop:
                complete = train(learner, steps, record, checkpoints, schedule, display, stop)
        except Exception as error:
            reason = foreseen(error)
            if reason is None:
                raise
            raise RunFailed(
                f"Stopped after {learner.num_timesteps:,} decisions: {reason} {_left(checkpoints)}"
            ) from error
        record.status = "finished" if complete else "interrupted"
    rate = (learner.num_timesteps - began_at) / max(record.seconds - began, 1e-9)
    with unheard_is_fine(sys.stdout):
        _conclude(learner, record, complete, rate)
    if record.saved != learner.num_timesteps:
        raise RunFailed(f"The last checkpoint could not be written. {_left(checkpoints)}")
    return 0 if complete else 130


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


def announce(learner: Learner, steps: int, schedule: Schedule, folder: Path) -> None:
    """Say what begins."""
    configuration = learner.configuration
    agent = configuration.agent
    rows = {
        "family": configuration.family,
        "preset": f"{configuration.preset} (presets/{configuration.preset}.toml)",
        "protocol": describe(learner.envs.envs[0]),
        "decisions": f"{steps:,} in {learner.envs.num_envs} environment(s)",
        "run": str(folder),
        "if interrupted": _prospect(learner, schedule, folder),
    }
    with unheard_is_fine(sys.stdout):
        print(f"{AGENTS[agent].summary} ({agent}) on {learner.env_source}, seed {learner.seed}")
        print_rows(rows)


def _prospect(learner: Learner, schedule: Schedule, folder: Path) -> str:
    """What a resumed run would be like."""
    losses = []
    if not schedule.save_replay:
        losses.append("it will begin with an empty replay memory (--save-replay false)")
    reason = learner.envs.unrestorable()
    if reason:
        losses.append(f"it will begin a new episode ({reason})")
    how = "but " + " and ".join(losses) if losses else "exactly where it was"
    return f"bdqn resume {shlex.quote(str(folder))} goes on, {how}"


def _conclude(learner: Learner, record: RunRecord, complete: bool, rate: float) -> None:
    folder = str(record.folder)
    if not complete:
        print(f"Interrupted after {learner.num_timesteps:,} decisions.")
        print(f"Go on with it: {shlex.join(['bdqn', 'resume', folder])}")
    mean = "no episode ended" if record.mean_return is None else f"{record.mean_return:.2f}"
    print(f"Mean return of the last 100 episodes: {mean}")
    print(f"Speed: {rate:,.0f} steps/s")
    print(f"Files: {folder}")
    print(f"Evaluate it: {shlex.join(['bdqn', 'evaluate', folder])}")


def _left(checkpoints: Checkpoints) -> str:
    """What there is to go back to."""
    generations = checkpoints.generations()
    if not generations:
        return "No checkpoint had been written yet."
    run = checkpoints.folder.parent
    return f"The latest checkpoint is {generations[-1]}; bdqn resume {shlex.quote(str(run))} goes on from there."
