"""``bdqn train``: trains one agent in one environment and records the run."""

from __future__ import annotations

import tomllib
from argparse import Namespace
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdqn.agents import AGENTS
from bdqn.cli import resume
from bdqn.cli.common import Invocation, disk_errors, prepare_torch, user_errors
from bdqn.cli.options import Parser, add_loggers, add_settings, environment_kwargs, given
from bdqn.config.preset_files import default_agent
from bdqn.config.settings import Setting, SettingError, Supervision, Training, build, nearest, setting, settings_of
from bdqn.runs.schedule import Schedule
from bdqn.storage.toml import toml_text

if TYPE_CHECKING:
    from bdqn.config.resolve import Configuration
    from bdqn.learner import Learner


@dataclass(frozen=True)
class Options:
    """Options of a run that are not settings of the agent."""

    env: str = setting("", "a Gymnasium id, such as CartPole-v1, MinAtar/Breakout-v1 or ALE/Pong-v5")
    agent: str = setting("", f"agent to train: {', '.join(AGENTS)}; unset: the preset's, bdqn-explore in default")
    preset: str = setting("default", "defaults of the settings (listed by bdqn presets)")
    steps: int | None = setting(None, "decisions to train for; unset: as in the preset", minimum=1)
    seed: int = setting(0, "seed of all random numbers", minimum=0)
    num_envs: int = setting(1, "number of environments stepped together", minimum=1)
    max_minutes: float | None = setting(
        None, "stop after this many minutes with a checkpoint to resume from; unset: no limit", minimum=0
    )
    out: str | None = setting(None, "the run's directory; unset: runs/ENV/AGENT/TIME_sSEED")
    device: str = setting("cpu", "device of the network: cpu, cuda, ...")
    threads: int | None = setting(
        None,
        "number of torch threads; unset: 1, or all cores for Atari (small networks are faster with one)",
        minimum=1,
    )


def run(argv: list[str]) -> int:
    """Train an agent, record the run and print the result."""
    start = Invocation.of("train", argv)
    options, schedule, supervision, overrides, args = _parse(argv)
    env_kwargs = environment_kwargs(args.env_kwargs)
    with user_errors():
        configuration = _configure(options, overrides)
    if args.continue_run and _is_there_to_continue(start.here, options, schedule, configuration, env_kwargs):
        same = resume.Options(options.steps, options.env, options.device, options.threads, options.max_minutes)
        return resume.resume_run(str(options.out), same, {}, args, start)
    learner = _learner(options, configuration, env_kwargs, supervision)
    steps = options.steps or configuration.total_steps

    from bdqn.cli.running import announce, loggers_of, run_training
    from bdqn.runs.directory import claim_directory, holds_run, locked, new_directory
    from bdqn.runs.hints import NextCommands
    from bdqn.runs.writer import RunWriter
    from bdqn.storage import checkpoint_files
    from bdqn.storage.checkpoints import Checkpoints

    with user_errors():
        folder = (
            claim_directory(start.here / options.out)
            if options.out is not None
            else new_directory(start.here / "runs", options.env, options.agent, options.seed)
        )
    called = options.out if options.out is not None else str(folder.relative_to(start.here))
    with locked(folder, new=True) as claim:
        with user_errors():
            loggers = loggers_of(args, folder)
        if not args.quiet:
            announce(learner, steps, schedule, called, options.max_minutes)
        checkpoints = Checkpoints(
            checkpoint_files.folder_of(folder), keep=schedule.keep, save_replay=schedule.save_replay
        )
        continuing = f"continue with {NextCommands(called, options.env).resume}"
        with user_errors(), disk_errors(then=lambda: continuing if holds_run(folder) else "try again"):
            writer = RunWriter(folder, learner, steps, schedule, command=start.command, loggers=loggers, claim=claim)
        until = start.deadline(options.max_minutes)
        return run_training(learner, steps, writer, checkpoints, schedule, quiet=args.quiet, run=called, deadline=until)


# --- arguments ------------------------------------------------------------------------------------------


def _parse(argv: list[str]) -> tuple[Options, Schedule, Supervision, dict[str, Any], Namespace]:
    """Parse the run's options first: agent and environment determine the available settings."""
    parser, known = _parser(), settings_of(Options)
    scheduled, supervised = settings_of(Schedule), settings_of(Supervision)
    add_settings(parser, known, vars(Options()))
    add_settings(parser, scheduled, vars(Schedule()))
    add_settings(parser, supervised, vars(Supervision()))
    first, _ = parser.parse_known_args(argv)
    options = _with_agent(build(Options, given(first, known)))
    settings = _add_agent_settings(parser, options)
    if first.help:
        parser.print_help()
        raise SystemExit(0)
    args = parser.parse(argv)
    if not options.env:
        raise SettingError("--env is required, for example: bdqn train --env CartPole-v1")
    schedule, supervision = build(Schedule, given(args, scheduled)), build(Supervision, given(args, supervised))
    return options, schedule, supervision, given(args, settings), args


def _parser() -> Parser:
    parser = Parser(
        prog="bdqn train",
        usage="bdqn train --env ENV [--agent AGENT] [--steps N] [--seed N] [--any-setting VALUE ...]",
        description="Train an agent and record the run. Values in [brackets] are defaults.",
        add_help=False,  # the settings are not known yet
    )
    parser.add_argument("-h", "--help", action="store_true", help="with --env: show every setting and its value")
    parser.add_argument(
        "--continue",
        dest="continue_run",
        action="store_true",
        help="resume the run in --out, if there is one",
    )
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    add_loggers(parser)
    parser.add_argument(
        "--env-kwargs", nargs="+", default=[], metavar="K=V", help="keyword arguments of the environment"
    )
    return parser


def _with_agent(options: Options) -> Options:
    """The same options, with the preset's agent where none is given."""
    if options.agent:
        return options
    with user_errors():
        if not options.env:
            return replace(options, agent=default_agent(options.preset))
        from bdqn.envs import family

        return replace(options, agent=default_agent(options.preset, family(options.env)))


def _add_agent_settings(parser: Parser, options: Options) -> dict[str, Setting]:
    """Add flags for all settings of the agent, with the preset's values if the environment is known."""
    agent = options.agent
    if agent not in AGENTS:
        raise SettingError(f"Unknown agent {agent!r}; {nearest(agent, AGENTS)}")
    if not options.env:
        parser.epilog = f"To see the preset's values: bdqn train --agent {agent} --env CartPole-v1 --help"
        settings = settings_of(Training) | settings_of(AGENTS[agent].settings)
        add_settings(parser.add_argument_group(f"settings of {agent}"), settings)
        return settings
    from bdqn.config.resolve import known_settings

    with user_errors():
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
    """Whether --out already holds a run, which must have the same configuration."""
    if options.out is None:
        raise SettingError("--continue needs --out, the directory of the run to resume.")
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
            "Resume it as it is (bdqn resume), or choose another directory."
        )
    return True


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    """Return all values by name, including those in tables."""
    tables = [value for value in content.values() if isinstance(value, dict)]
    values = {name: value for name, value in content.items() if not isinstance(value, dict) and value is not None}
    return {name: value for part in (values, *tables) for name, value in part.items()}


def _learner(
    options: Options, configuration: Configuration, env_kwargs: dict[str, Any], supervision: Supervision
) -> Learner:
    from bdqn.learner import Learner

    prepare_torch(options.device, configuration.family, options.threads)
    with user_errors():
        return Learner(
            configuration,
            options.env,
            seed=options.seed,
            num_envs=options.num_envs,
            device=options.device,
            env_kwargs=env_kwargs,
            supervision=supervision,
        )
