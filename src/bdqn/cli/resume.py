"""``bdqn resume``: resumes an interrupted or killed run, or trains a finished one for longer."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdqn.cli.common import Invocation, prepare_torch, user_errors
from bdqn.cli.options import Parser, add_loggers, add_settings, given
from bdqn.config.settings import SettingError, Supervision, build, setting, settings_of
from bdqn.runs.schedule import Schedule
from bdqn.storage import safe_files
from bdqn.storage.safe_files import printable

if TYPE_CHECKING:
    from bdqn.storage.checkpoints import Checkpoints, Restored


# Required entries of config.toml and their types.
CONFIG = {
    **dict.fromkeys(("agent", "env", "family", "preset", "device"), str),
    **dict.fromkeys(("seed", "num_envs", "steps", "threads"), int),
    **dict.fromkeys(("schedule", "settings"), dict),
}


@dataclass(frozen=True)
class Options:
    """Options of ``bdqn resume``."""

    steps: int | None = setting(None, "decisions in total; unset: as configured for the run", minimum=1)
    env: str | None = setting(None, "the run's environment again, if its id imports a module (module:Name-v0)")
    device: str | None = setting(
        None, "device of the network; unset: as before (a change makes the continuation inexact)"
    )
    threads: int | None = setting(
        None, "number of torch threads; unset: as before (a change makes the continuation inexact)", minimum=1
    )
    max_minutes: float | None = setting(
        None, "stop after this many minutes with a checkpoint to resume from; unset: no limit", minimum=0
    )


def run(argv: list[str]) -> int:
    """Restore the run, continue training and print the result."""
    start = Invocation.of("resume", argv)
    parser = Parser(
        prog="bdqn resume",
        description="Resume a run. On the same machine with the same versions, it continues as if never interrupted.",
    )
    parser.add_argument("run", metavar="RUN", help="the run's directory")
    known, scheduled = settings_of(Options), settings_of(Schedule)
    changeable = {name: scheduled[name] for name in ("max_episodes", "stop_at")}
    add_settings(parser, known | changeable)
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    add_loggers(parser)
    args = parser.parse(argv)
    return resume_run(args.run, build(Options, given(args, known)), given(args, changeable), args, start)


def resume_run(run: str, options: Options, changes: Mapping[str, Any], args: Namespace, start: Invocation) -> int:
    """Resume the run in a directory, with ``changes`` to its schedule."""
    folder = start.here / run
    config = read_config(folder)
    schedule = build(Schedule, config["schedule"] | changes)
    _require_same_environment(run, options.env, config["env"])
    prepare_torch(options.device or config["device"], config["family"], options.threads or config["threads"])

    from bdqn.cli.running import announce, loggers_of, run_training
    from bdqn.runs.directory import locked
    from bdqn.runs.progress import notify
    from bdqn.runs.writer import RunWriter, read_meta
    from bdqn.storage import checkpoint_files
    from bdqn.storage.checkpoints import Checkpoints

    with locked(folder, new=False) as claim:
        checkpoints = Checkpoints(
            checkpoint_files.folder_of(folder), keep=schedule.keep, save_replay=schedule.save_replay
        )
        restored = _restore(folder, checkpoints, config, options)
        learner, steps = restored.learner, options.steps or config["steps"]
        with user_errors():
            finished = read_meta(folder).get("status") == "finished"
        taken = learner.num_timesteps
        goes_beyond = taken - learner.envs.num_envs >= steps
        if goes_beyond or (finished and taken >= steps):  # at the last decision itself, work may still be due
            print(f"{run} has already taken {steps:,} decisions. To train for longer, use --steps N.")
            return 0
        with user_errors():
            loggers = loggers_of(args, folder)
        if not args.quiet:
            announce(learner, steps, schedule, run, options.max_minutes)
        notes = _notes(restored)
        for note in notes["lost"]:
            notify(printable(note))
        with user_errors():
            writer = RunWriter(
                folder,
                learner,
                steps,
                schedule,
                command=start.command,
                loggers=loggers,
                state=restored.run,
                resumed=notes,
                claim=claim,
            )
        until = start.deadline(options.max_minutes)
        return run_training(learner, steps, writer, checkpoints, schedule, quiet=args.quiet, run=run, deadline=until)


def read_config(folder: Path) -> dict[str, Any]:
    """Read and check a run's configuration."""
    path = folder / "config.toml"
    with user_errors():
        if not os.path.lexists(path):
            problem = "holds no run (no config.toml)" if folder.exists() else "does not exist"
            raise SettingError(f"{folder} {problem}: pass the directory that bdqn train printed.")
        config = safe_files.read_toml(path)
    safe_files.require(path, {"env_kwargs": {}, **config}, {**CONFIG, "env_kwargs": dict})
    return config


def _require_same_environment(run: str, given: str | None, known: str) -> None:
    """Refuse an --env that differs from the run's in more than the module that registers it."""
    if given is not None and given.rpartition(":")[2] != known.rpartition(":")[2]:
        raise SettingError(f"{run} was trained on {known}, but --env is {given}: omit --env, or start a new run.")


def _restore(folder: Path, checkpoints: Checkpoints, config: dict[str, Any], options: Options) -> Restored:
    """Restore the run from its newest valid checkpoint, or from the start if there is none."""
    from bdqn.config.resolve import configure, known_settings
    from bdqn.learner import Learner
    from bdqn.runs.run_state import check_state
    from bdqn.storage.checkpoints import Restored
    from bdqn.storage.saved_agents import trusted

    device = options.device or config["device"]
    with user_errors():
        if checkpoints.paths():
            return checkpoints.load(options.env, device=device, check=partial(check_state, folder))
        # TOML has no null: a missing setting is unset.
        known = known_settings(config["agent"], config["family"])
        values = {name: config["settings"].get(name) for name in known}
        preset = config["preset"].removesuffix(f"-{config['family']}")
        learner = Learner(
            configure(config["agent"], config["family"], preset, saved=values),
            options.env or trusted(config["env"], "config.toml"),
            seed=config["seed"],
            num_envs=config["num_envs"],
            device=device,
            env_kwargs=config.get("env_kwargs"),
            supervision=build(Supervision, config.get("supervision", {})),
        )
    return Restored(learner, {})


def _notes(restored: Restored) -> dict[str, Any]:
    """Return notes about this resumption, for meta.json."""
    lost = [f"Skipped a damaged checkpoint: {problem}" for problem in restored.damaged]
    lost += [f"Environment {i} starts a new episode: {reason}." for i, reason in restored.restarted.items()]
    if not restored.replay:
        lost.append(
            "The replay buffer was not saved: learning pauses until it holds learning_starts transitions again."
        )
    lost += [f"The continuation is not exact: {change}." for change in restored.changed]
    return {"step": restored.learner.num_timesteps, "lost": lost}
