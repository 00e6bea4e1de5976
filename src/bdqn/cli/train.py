"""``bdqn train``: one agent in one environment, recorded."""

from __future__ import annotations

import tomllib
from argparse import Namespace
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdqn.agents import AGENTS
from bdqn.cli import resume
from bdqn.cli.common import Start, correctable, prepare_torch
from bdqn.cli.options import Parser, add_settings, environment_kwargs, given
from bdqn.config.settings import Setting, SettingError, Supervision, Training, build, nearest, setting, settings_of
from bdqn.runs.schedule import Schedule
from bdqn.storage.toml import toml_text

if TYPE_CHECKING:
    from bdqn.config.resolve import Configuration
    from bdqn.learner import Learner


@dataclass(frozen=True)
class Options:
    """Everything about a run that is no setting of the agent."""

    env: str = setting("", "a Gymnasium id, such as CartPole-v1, MinAtar/Breakout-v1 or ALE/Pong-v5")
    agent: str = setting("bdqn", f"who learns: {', '.join(AGENTS)}")
    preset: str = setting("default", "where settings come from that are not given (bdqn presets lists them)")
    steps: int | None = setting(None, "decisions to train for; unset: as many as the preset says", minimum=1)
    seed: int = setting(0, "the one seed that everything random derives from", minimum=0)
    num_envs: int = setting(1, "environments stepped together", minimum=1)
    max_minutes: float | None = setting(
        None, "stop after so long, with a checkpoint to go on from; unset: no limit", minimum=0
    )
    out: str | None = setting(None, "the run's directory; unset: runs/ENV/AGENT/TIME_sSEED")
    device: str = setting("cpu", "where the network computes: cpu, cuda, ...")
    threads: int | None = setting(
        None,
        "torch's threads; unset: 1, or all cores for Atari (small networks are faster on one)",
        minimum=1,
    )


def run(argv: list[str]) -> int:
    """Train, record, save, and say what came of it."""
    start = Start.of("train", argv)
    options, schedule, supervision, overrides, args = _parse(argv)
    env_kwargs = environment_kwargs(args.env_kwargs)
    with correctable():
        configuration = _configure(options, overrides)
    if args.go_on and _is_there_to_continue(start.here, options, schedule, configuration, env_kwargs):
        same = resume.Options(options.steps, options.env, options.device, options.threads, options.max_minutes)
        return resume.go_on(str(options.out), same, {}, args, start)
    learner = _learner(options, configuration, env_kwargs, supervision)
    steps = options.steps or configuration.total_steps

    from bdqn.cli.running import announce, train_recorded
    from bdqn.runs.directory import claim_directory, locked, new_directory
    from bdqn.runs.writer import RunRecord
    from bdqn.storage import checkpoint_files
    from bdqn.storage.checkpoints import Checkpoints

    with correctable():
        folder = (
            claim_directory(start.here / options.out)
            if options.out is not None
            else new_directory(start.here / "runs", options.env, options.agent, options.seed)
        )
    called = options.out if options.out is not None else str(folder.relative_to(start.here))
    with locked(folder, new=True) as claim:
        if not args.quiet:
            announce(learner, steps, schedule, called, options.max_minutes)
        checkpoints = Checkpoints(
            checkpoint_files.folder_of(folder), keep=schedule.keep, save_replay=schedule.save_replay
        )
        with correctable():
            record = RunRecord(
                folder, learner, steps, schedule, command=start.command, tensorboard=args.tensorboard, claim=claim
            )
        until = start.deadline(options.max_minutes)
        return train_recorded(
            learner, steps, record, checkpoints, schedule, quiet=args.quiet, run=called, deadline=until
        )


# --- what was asked for ---------------------------------------------------------------------------------


def _parse(argv: list[str]) -> tuple[Options, Schedule, Supervision, dict[str, Any], Namespace]:
    """The run's options first: agent and environment decide which settings there are."""
    parser, known = _parser(), settings_of(Options)
    scheduled, supervised = settings_of(Schedule), settings_of(Supervision)
    add_settings(parser, known, vars(Options()))
    add_settings(parser, scheduled, vars(Schedule()))
    add_settings(parser, supervised, vars(Supervision()))
    first, _ = parser.parse_known_args(argv)
    options = build(Options, given(first, known))
    settings = _add_agent_settings(parser, options)
    if first.help:
        parser.print_help()
        raise SystemExit(0)
    args = parser.parse(argv)
    if not options.env:
        raise SettingError("Which environment? For example: bdqn train --env CartPole-v1")
    schedule, supervision = build(Schedule, given(args, scheduled)), build(Supervision, given(args, supervised))
    return options, schedule, supervision, given(args, settings), args


def _parser() -> Parser:
    parser = Parser(
        prog="bdqn train",
        usage="bdqn train --env ENV [--agent AGENT] [--steps N] [--seed N] [--any-setting VALUE ...]",
        description="Train an agent and record the run. Values in [brackets] hold unless others are given.",
        add_help=False,  # the settings are not known yet
    )
    parser.add_argument("-h", "--help", action="store_true", help="with --env: every setting and its value")
    parser.add_argument(
        "--continue", dest="go_on", action="store_true", help="go on with the run in --out, if there is one already"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but the result")
    parser.add_argument("--tensorboard", action="store_true", help="write TensorBoard events too")
    parser.add_argument("--env-kwargs", nargs="+", default=[], metavar="K=V", help="given to the environment")
    return parser


def _add_agent_settings(parser: Parser, options: Options) -> dict[str, Setting]:
    """Flags for all settings of the agent; where the environment is known, with the preset's values."""
    agent = options.agent
    if agent not in AGENTS:
        raise SettingError(f"There is no agent {agent!r}; {nearest(agent, AGENTS)}")
    if not options.env:
        parser.epilog = f"To see the preset's values: bdqn train --agent {agent} --env CartPole-v1 --help"
        settings = settings_of(Training) | settings_of(AGENTS[agent].settings)
        add_settings(parser.add_argument_group(f"settings of {agent}"), settings)
        return settings
    from bdqn.config.resolve import known_settings

    with correctable():
        configuration = _configure(options, {})
    settings = known_settings(agent, configuration.family)
    title = f"settings of {agent} on {options.env}, values of preset {configuration.preset}"
    add_settings(parser.add_argument_group(title), settings, configuration.values)
    return settings


def _configure(options: Options, overrides: dict[str, Any]) -> Configuration:
    from bdqn.config.resolve import configure
    from bdqn.envs import family

    return configure(options.agent, family(options.env), options.preset, overrides)


def _is_there_to_continue(
    here: Path, options: Options, schedule: Schedule, configuration: Configuration, env_kwargs: dict[str, Any]
) -> bool:
    """Whether --out holds a run already; it must be the one that is asked for."""
    if options.out is None:
        raise SettingError("--continue goes on with the run in a directory: say which, with --out.")
    if not (here / options.out / "config.toml").exists():
        return False
    config = resume.read_config(here / options.out)
    asked = {
        **{name: getattr(options, name) for name in ("agent", "env", "seed", "num_envs", "device")},
        "preset": configuration.preset,
        "schedule": asdict(schedule),
        "env_kwargs": env_kwargs,
        "settings": configuration.values,
    }
    wanted, there = (_flat(content) for content in (tomllib.loads(toml_text(asked)), {n: config.get(n) for n in asked}))
    differing = [name for name in (wanted | there) if wanted.get(name) != there.get(name)]
    if differing:
        name = differing[0]
        raise SettingError(
            f"{options.out} holds another run: its {name} is {there.get(name)}, not {wanted.get(name)}. "
            "Go on with it as it is (bdqn resume), or choose another directory."
        )
    return True


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    """Values and those of tables, by name."""
    tables = [value for value in content.values() if isinstance(value, dict)]
    values = {name: value for name, value in content.items() if not isinstance(value, dict) and value is not None}
    return {name: value for part in (values, *tables) for name, value in part.items()}


def _learner(
    options: Options, configuration: Configuration, env_kwargs: dict[str, Any], supervision: Supervision
) -> Learner:
    from bdqn.learner import Learner

    prepare_torch(options.device, configuration.family, options.threads)
    with correctable():
        return Learner(
            configuration,
            options.env,
            seed=options.seed,
            num_envs=options.num_envs,
            device=options.device,
            env_kwargs=env_kwargs,
            supervision=supervision,
        )
