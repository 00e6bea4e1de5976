"""``bdqn resume``: go on with a run that was interrupted or killed, or train a finished one for longer."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdqn.cli.common import Start, correctable, prepare_torch
from bdqn.cli.options import Parser, add_settings, given
from bdqn.config.settings import SettingError, Supervision, build, setting, settings_of
from bdqn.runs.schedule import Schedule
from bdqn.storage import safe_files
from bdqn.storage.safe_files import printable

if TYPE_CHECKING:
    from bdqn.storage.checkpoints import Checkpoints, Restored


# What config.toml must hold.
CONFIG = {
    **dict.fromkeys(("agent", "env", "family", "preset", "device"), str),
    **dict.fromkeys(("seed", "num_envs", "steps", "threads"), int),
    **dict.fromkeys(("schedule", "settings"), dict),
}


@dataclass(frozen=True)
class Options:
    """What may differ from the run so far."""

    steps: int | None = setting(None, "decisions in all; unset: as many as the run was meant for", minimum=1)
    env: str | None = setting(None, "the run's environment again, where its name imports a module (module:Name-v0)")
    device: str | None = setting(None, "where the network computes; unset: as before (exact only then)")
    threads: int | None = setting(None, "torch's threads; unset: as before (exact only then)", minimum=1)
    max_minutes: float | None = setting(
        None, "stop after so long, with a checkpoint to go on from; unset: no limit", minimum=0
    )


def run(argv: list[str]) -> int:
    """Restore, train on, and say what came of it."""
    start = Start.of("resume", argv)
    parser = Parser(
        prog="bdqn resume",
        description="Go on with a run: exactly as if it had not been interrupted, on the same machine and versions.",
    )
    parser.add_argument("run", metavar="RUN", help="the run's directory")
    known, changeable = settings_of(Options), {"stop_at": settings_of(Schedule)["stop_at"]}
    add_settings(parser, known | changeable)
    parser.add_argument("--quiet", action="store_true", help="print nothing but the result")
    parser.add_argument("--tensorboard", action="store_true", help="write TensorBoard events too")
    args = parser.parse(argv)
    return go_on(args.run, build(Options, given(args, known)), given(args, changeable), args, start)


def go_on(run: str, options: Options, changes: Mapping[str, Any], args: Namespace, start: Start) -> int:
    """Go on with the run in a directory, with some ``changes`` to its schedule."""
    folder = start.here / run
    config = read_config(folder)
    schedule = build(Schedule, config["schedule"] | changes)
    _require_same_environment(run, options.env, config["env"])
    prepare_torch(options.device or config["device"], config["family"], options.threads or config["threads"])

    from bdqn.cli.running import announce, train_recorded
    from bdqn.runs.directory import locked
    from bdqn.runs.progress import tell
    from bdqn.runs.writer import RunRecord, read_meta
    from bdqn.storage import checkpoint_files
    from bdqn.storage.checkpoints import Checkpoints

    with locked(folder, new=False) as claim:
        checkpoints = Checkpoints(
            checkpoint_files.folder_of(folder), keep=schedule.keep, save_replay=schedule.save_replay
        )
        restored = _restore(checkpoints, config, options)
        learner, steps = restored.learner, options.steps or config["steps"]
        with correctable():
            finished = read_meta(folder).get("status") == "finished"
        taken = learner.num_timesteps
        if taken >= steps and (finished or taken < config["steps"]):  # else an evaluation may be due, or its end noted
            print(f"{run} has taken all of its {steps:,} decisions; for more: --steps N.")
            return 0
        if not args.quiet:
            announce(learner, steps, schedule, run, options.max_minutes)
        notes = _notes(restored)
        for note in notes["lost"]:
            tell(printable(note))
        with correctable():
            record = RunRecord(
                folder,
                learner,
                steps,
                schedule,
                command=start.command,
                tensorboard=args.tensorboard,
                state=restored.run,
                resumed=notes,
                claim=claim,
            )
        until = start.deadline(options.max_minutes)
        return train_recorded(learner, steps, record, checkpoints, schedule, quiet=args.quiet, run=run, deadline=until)


def read_config(folder: Path) -> dict[str, Any]:
    """A run's configuration."""
    path = folder / "config.toml"
    with correctable():
        if not os.path.lexists(path):
            problem = "holds no run (no config.toml)" if folder.exists() else "does not exist"
            raise SettingError(f"{folder} {problem}: give the directory that bdqn train printed.")
        config = safe_files.read_toml(path)
    safe_files.require(path, {"env_kwargs": {}, **config}, {**CONFIG, "env_kwargs": dict})
    return config


def _require_same_environment(run: str, given: str | None, known: str) -> None:
    """An environment may be given again with the module that registers it, and under no other name."""
    if given is not None and given.rpartition(":")[2] != known.rpartition(":")[2]:
        raise SettingError(
            f"{run} was trained on {known}, and {given} is another environment: leave out --env, or begin a new run."
        )


def _restore(checkpoints: Checkpoints, config: dict[str, Any], options: Options) -> Restored:
    """The run as its newest sound checkpoint has it; from its beginning if it was killed before the first."""
    from bdqn.config.resolve import configure, known_settings
    from bdqn.learner import Learner
    from bdqn.storage.checkpoints import Restored
    from bdqn.storage.saved_agents import trusted

    device = options.device or config["device"]
    with correctable():
        if checkpoints.generations():
            return checkpoints.load(options.env, device=device)
        # TOML has no value for "unset": what is missing is that.
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
    """What is recorded of this resumption."""
    lost = [f"A damaged checkpoint was passed over: {problem}" for problem in restored.damaged]
    lost += [f"Environment {i} begins a new episode: {reason}." for i, reason in restored.restarted.items()]
    if not restored.replay:
        lost.append("The replay memory was not saved: learning pauses until a new one has learning_starts transitions.")
    lost += [f"Not exactly as before: {change}." for change in restored.changed]
    return {"step": restored.learner.num_timesteps, "lost": lost}
