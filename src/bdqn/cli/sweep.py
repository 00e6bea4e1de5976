"""``bdqn sweep``: runs all trials of a file, several in parallel. The same command continues an interrupted sweep."""

from __future__ import annotations

import math
import os
import sys
from argparse import Namespace
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from bdqn.cli.common import RunFailed, disk_errors, say, user_errors
from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError
from bdqn.runs.progress import duration, ignoring_output_errors
from bdqn.sweep.plan import FULL, Sweep, Trial, module_of, read_sweep

if TYPE_CHECKING:
    from bdqn.sweep.engine import Engine


def run(argv: list[str]) -> int:
    """Run the unfinished trials and print the result."""
    parser = Parser(
        prog="bdqn sweep",
        description="Run all trials of a sweep file. After an interruption, the same command continues the sweep.",
    )
    parser.add_argument("file", metavar="FILE", help="the sweep file, such as experiments/cartpole/sweep.toml")
    parser.add_argument(
        "--scale",
        default=FULL,
        help="a scale that the file defines, such as quick, or several: 5M,30M [%(default)s: the whole file]",
    )
    parser.add_argument("--out", metavar="DIR", help="directory for the trials [out/NAME, for NAME/sweep.toml]")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="number of parallel trials [%(default)s]"
    )
    parser.add_argument("--device", help="device of the networks: cpu, cuda, ... [the file's, or as before, or cpu]")
    parser.add_argument("--gpus", metavar="IDS", help="GPUs that trials use in turn, such as 0,1 [all see all]")
    parser.add_argument("--ray", metavar="WHERE", help="run the trials with Ray: local, or the address of a cluster")
    parser.add_argument("--retries", type=int, default=3, help="retries of a trial whose process dies [%(default)s]")
    parser.add_argument("--dry-run", action="store_true", help="list the trials and estimate their time and memory")
    parser.add_argument(
        "--speed",
        type=float,
        metavar="N",
        help="with --dry-run: assume N decisions per second of a trial, rather than measure them here",
    )
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    args = parser.parse(argv)
    for name, least in (("workers", 1), ("retries", 0)):
        if getattr(args, name) < least:
            raise SettingError(f"--{name} must be at least {least}, not {getattr(args, name)}.")
    if args.speed is not None and not (args.dry_run and 0 < args.speed < math.inf):
        raise SettingError(f"--speed must be a positive number, with --dry-run, not {args.speed}.")
    path = Path(args.file)
    with user_errors():
        sweep = read_sweep(path, args.scale, imports=not args.dry_run)
    gpus = _gpus(args.gpus)
    if args.device or gpus:
        sweep = sweep.on(args.device or "cuda")
    if gpus and not all(device.startswith("cuda") for device in sweep.devices):
        raise SettingError("--gpus needs --device cuda.")
    out = Path(args.out) if args.out else default_out(path)
    if args.dry_run:
        _describe(sweep, out, args.workers, args.speed)
        return 0
    check_environments(sweep)
    if not args.ray:  # the nodes of a cluster have devices of their own
        check_devices(sweep)
    return _execute(sweep, out, args, gpus)


def _gpus(ids: str | None) -> list[str]:
    gpus = [] if ids is None else [gpu.strip() for gpu in ids.split(",")]
    if not all(gpus) or len({*gpus}) < len(gpus):
        raise SettingError(f"--gpus must be different ids with commas in between, such as 0,1, not {ids!r}.")
    return gpus


def check_devices(sweep: Sweep) -> None:
    """Refuse devices that cannot be used here, before the sweep starts.

    This takes a process of its own: otherwise the sweep would occupy some of a GPU's memory for as long as it lasts.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from bdqn.networks.device import check_device

    others = sorted(sweep.devices - {"cpu"})
    if others:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            for device in others:
                process.submit(check_device, device).result()


def default_out(file: Path) -> Path:
    """Return ``out/NAME`` for NAME/sweep.toml, and ``out/NAME-FILE`` for any other file."""
    name = file.resolve().parent.name
    return Path("out") / (name if file.stem == "sweep" else f"{name}-{file.stem}")


def check_environments(sweep: Sweep, *, imports: bool = True) -> None:
    """Create each environment once, so that problems show before the sweep starts.

    Without ``imports``, skip environments whose id imports a module.
    """
    from bdqn.envs import check_spaces, make_env
    from bdqn.envs.adapted import adapted

    for name in dict.fromkeys(trial.env for trial in sweep.trials if imports or not module_of(trial.env)):
        with user_errors(), closing(make_env(name)) as env:
            check_spaces(adapted(env))


def _execute(sweep: Sweep, out: Path, args: Namespace, gpus: list[str]) -> int:
    from bdqn.cli.running import interruptible
    from bdqn.runs.directory import claim_directory, locked
    from bdqn.sweep.display import watching
    from bdqn.sweep.engine import run_sweep
    from bdqn.sweep.folder import SweepFolder

    with user_errors():
        folder = SweepFolder(claim_directory(out))
    with locked(out, new=False):
        with user_errors():
            folder.prepare(sweep)
        with (
            disk_errors(),
            _engine(args.ray, args.workers, out, gpus) as engine,
            watching(sweep, folder, quiet=args.quiet) as watch,
            interruptible() as stop,
        ):
            work = run_sweep(sweep, folder, engine, args.workers, args.retries, watch, stop)
    with ignoring_output_errors(sys.stdout):
        print(f"{len(work.done)} of {len(sweep.trials)} trials are finished. Compare them: bdqn compare {out}")
        for trial, message in work.failed.items():
            say(f"  failed: {trial.label}: {message} ({folder.log(trial)})")
        for trial, note in work.notes.items():
            say(f"  {trial.label} {note}")
    if work.failed:
        raise RunFailed(f"{len(work.failed)} trials failed. Run the same command to retry them.")
    return 0 if len(work.done) == len(sweep.trials) else 130


def _engine(ray: str | None, workers: int, out: Path, gpus: list[str]) -> AbstractContextManager[Engine]:
    if ray is None:
        from bdqn.sweep.local import Local

        return nullcontext(Local(gpus))
    from bdqn.sweep.cluster import cluster

    return cluster(ray, workers, out, gpus)


def _describe(sweep: Sweep, out: Path, workers: int, speed: float | None = None) -> None:
    """List the trials, with estimates for each group at the machine's current load, or at an assumed ``speed``.

    Not estimated are environments whose id imports a module, because importing runs its code, and, unless a speed is
    assumed, devices that cannot be used here.
    """
    from bdqn.sweep.folder import SweepFolder

    folder = SweepFolder(out)
    left, known = 0.0, []
    check_environments(sweep, imports=False)
    for env, group in dict.fromkeys((trial.env, trial.group) for trial in sweep.trials):
        trials = [trial for trial in sweep.trials if (trial.env, trial.group) == (env, group)]
        try:
            pace, size = _estimate(trials[0], speed)
            known.append(True)
            longest = duration(pace * max(trial.steps for trial in trials))
            print(f"{group} on {env}: {longest} and {size / 1e9:.2f} GB each")
        except NotEstimated as reason:
            pace = 0.0
            known.append(False)
            print(f"{group} on {env}: not estimated: {reason}")
        for trial in trials:
            progress = folder.progress(trial)
            left += 0.0 if progress.finished else pace * max(trial.steps - progress.decisions, 0)
            state = "finished" if progress.finished else f"{progress.decisions:,} of {trial.steps:,} decisions"
            print(f"  seed {trial.seed:<6} {folder.run(trial)}  {state}")
    others = "" if all(known) else " for the estimated ones"
    assumed = "" if speed is None else f", if each takes {speed:g} decisions a second (assumed, not measured)"
    about = "at most" if any(trial.may_end_early for trial in sweep.trials) else "about"
    unknown = "--speed N assumes a speed" if speed is None else "not estimated"
    time = f"{about} {duration(left / workers)}{others}{assumed}" if any(known) else unknown
    print(f"{len(sweep.trials)} trials, {workers} in parallel: {time}")


class NotEstimated(Exception):
    """Why a dry run cannot tell how long a trial takes."""


def _estimate(trial: Trial, speed: float | None) -> tuple[float, float]:
    """Estimate the seconds per decision of a trial, and the bytes that it takes.

    With an assumed ``speed`` nothing is measured, so the device need not be here.
    """
    from bdqn.cli.doctor import measure, small_learner
    from bdqn.config.resolve import configure
    from bdqn.envs import family
    from bdqn.networks.device import check_device, use_threads

    if module := module_of(trial.env):
        raise NotEstimated(f"a dry run does not import {module}")
    device = "cpu" if speed else trial.device or "cpu"
    try:
        check_device(device)
    except SettingError as error:
        raise NotEstimated(str(error)) from error
    configuration = configure(trial.agent, family(trial.env), trial.preset, trial.settings)
    with user_errors():
        learner = small_learner(configuration, trial.env, device)
    use_threads(trial.threads)
    pace = 1 / speed if speed else measure(learner, seconds=0.5).per_decision(learner)
    frames = min(configuration.training.buffer_size, int(1.1 * trial.steps))
    return pace, frames * learner.agent.replay.frame_bytes + PROCESS


PROCESS = 400e6  # bytes of a training process with an empty replay buffer
