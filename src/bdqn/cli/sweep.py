"""``bdqn sweep``: all trials of a file, here, several at a time; the same command again goes on with it."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from bdqn.cli.common import RunFailed, correctable, say
from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError
from bdqn.runs.progress import duration, unheard_is_fine
from bdqn.sweep.plan import FULL, Sweep, Trial, module_of, read_sweep

if TYPE_CHECKING:
    from bdqn.sweep.engine import Engine


def run(argv: list[str]) -> int:
    """Carry out what is not done yet, and say what came of it."""
    parser = Parser(
        prog="bdqn sweep",
        description="Run every trial of a sweep file. Interrupted or killed, the same command goes on where it was.",
    )
    parser.add_argument("file", metavar="FILE", help="the sweep file, such as experiments/cartpole/sweep.toml")
    parser.add_argument(
        "--scale", default=FULL, help="a part that the file names, such as quick [%(default)s: all of it]"
    )
    parser.add_argument("--out", metavar="DIR", help="where the trials go [out/NAME, for NAME/sweep.toml]")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="trials at a time [%(default)s]")
    parser.add_argument("--ray", metavar="WHERE", help="run the trials by Ray: local, or the address of a cluster")
    parser.add_argument("--retries", type=int, default=3, help="of a trial whose process dies [%(default)s]")
    parser.add_argument("--dry-run", action="store_true", help="list the trials, and what they would take")
    parser.add_argument("--quiet", action="store_true", help="print nothing but the result")
    args = parser.parse(argv)
    for name, least in (("workers", 1), ("retries", 0)):
        if getattr(args, name) < least:
            raise SettingError(f"--{name} must be at least {least}, not {getattr(args, name)}.")
    path = Path(args.file)
    with correctable():
        sweep = read_sweep(path, args.scale, imports=not args.dry_run)
    out = Path(args.out) if args.out else default_out(path)
    if args.dry_run:
        _describe(sweep, out, args.workers)
        return 0
    check_environments(sweep)
    return _carry_out(sweep, out, args)


def default_out(file: Path) -> Path:
    """``out/NAME`` for NAME/sweep.toml; another file beside it has a directory of its own, out/NAME-FILE."""
    name = file.resolve().parent.name
    return Path("out") / (name if file.stem == "sweep" else f"{name}-{file.stem}")


def check_environments(sweep: Sweep, *, imports: bool = True) -> None:
    """Make each environment once: what is missing or unsuitable shows now, and not in the middle of the night.

    Without ``imports``, those are left out whose name imports a module.
    """
    from bdqn.envs import check_spaces, make_env

    for name in dict.fromkeys(trial.env for trial in sweep.trials if imports or not module_of(trial.env)):
        with correctable(), closing(make_env(name)) as env:
            check_spaces(env)


def _carry_out(sweep: Sweep, out: Path, args: Namespace) -> int:
    from bdqn.cli.running import interruptible
    from bdqn.runs.directory import claim_directory, locked
    from bdqn.sweep.display import watching
    from bdqn.sweep.engine import carry_out
    from bdqn.sweep.folder import SweepFolder

    with correctable():
        folder = SweepFolder(claim_directory(out))
    with locked(out, new=False):
        with correctable():
            folder.prepare(sweep)
        with (
            _engine(args.ray, args.workers, out) as engine,
            watching(sweep, folder, quiet=args.quiet) as watch,
            interruptible() as stop,
        ):
            work = carry_out(sweep, folder, engine, args.workers, args.retries, watch, stop)
    with unheard_is_fine(sys.stdout):
        print(f"{len(work.done)} of {len(sweep.trials)} trials are finished. Compare them: bdqn compare {out}")
        for trial, message in work.failed.items():
            say(f"  failed: {trial.label}: {message} ({folder.log(trial)})")
        for trial, note in work.notes.items():
            say(f"  {trial.label} {note}")
    if work.failed:
        raise RunFailed(f"{len(work.failed)} trials failed. The same command tries them again.")
    return 0 if len(work.done) == len(sweep.trials) else 130


def _engine(ray: str | None, workers: int, out: Path) -> AbstractContextManager[Engine]:
    if ray is None:
        from bdqn.sweep.local import Local

        return nullcontext(Local())
    from bdqn.sweep.cluster import cluster

    return cluster(ray, workers, out)


def _describe(sweep: Sweep, out: Path, workers: int) -> None:
    """List the trials, with what each kind would take on this machine as it is now.

    What an environment's name imports is left alone: a module's code may do anything.
    """
    from bdqn.sweep.folder import SweepFolder

    folder = SweepFolder(out)
    left = 0.0
    check_environments(sweep, imports=False)
    for env, group in dict.fromkeys((trial.env, trial.group) for trial in sweep.trials):
        trials = [trial for trial in sweep.trials if (trial.env, trial.group) == (env, group)]
        seconds, size = (0.0, 0.0) if module_of(env) else _estimate(trials[0], sweep.steps)
        unknown = f"not looked at: a dry run does not import {module_of(env)}"
        print(f"{group} on {env}: " + (f"{duration(seconds)} and {size / 1e9:.2f} GB each" if size else unknown))
        for trial in trials:
            progress = folder.progress(trial, sweep.steps)
            left += 0.0 if progress.finished else seconds * (1 - min(progress.decisions, sweep.steps) / sweep.steps)
            state = "finished" if progress.finished else f"{progress.decisions:,} of {sweep.steps:,} decisions"
            print(f"  seed {trial.seed:<6} {folder.run(trial)}  {state}")
    others = " for those that were looked at" if any(module_of(trial.env) for trial in sweep.trials) else ""
    print(f"{len(sweep.trials)} trials, {workers} at a time: about {duration(left / workers)}{others}")


def _estimate(trial: Trial, steps: int) -> tuple[float, float]:
    """Seconds and bytes that a trial takes."""
    from bdqn.cli.doctor import measure, small_learner
    from bdqn.config.resolve import configure
    from bdqn.envs import family
    from bdqn.networks.device import use_threads
    from bdqn.replay.buffer import bytes_per_frame

    configuration = configure(trial.agent, family(trial.env), trial.preset, trial.settings)
    with correctable():
        learner = small_learner(configuration, trial.env)
    use_threads(trial.threads)
    seconds = measure(learner, seconds=0.5).total(learner, steps)
    spec, size = learner.agent.spec, configuration.training.buffer_size
    frames = min(size, int(1.1 * steps))
    per_frame = bytes_per_frame(
        spec.shape, spec.dtype, spec.stack, configuration.training.pack_frames, learner.agent.choices.members
    )
    return seconds, frames * per_frame + PROCESS


PROCESS = 400e6  # bytes of a training with an empty replay memory
