"""``bdqn train``: one agent in one environment, recorded."""

from __future__ import annotations

import shlex
import signal
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from bdqn.agents import AGENTS
from bdqn.cli.common import RunFailed, correctable, prepare_torch, print_rows
from bdqn.cli.options import Parser, add_settings, environment_kwargs, given
from bdqn.settings import Setting, SettingError, Training, build, nearest, setting, settings_of

if TYPE_CHECKING:
    from bdqn.configure import Configuration
    from bdqn.learner import Learner
    from bdqn.record import RunRecord


@dataclass(frozen=True)
class Options:
    """Everything about a run that is no setting of the agent."""

    env: str = setting("", "a Gymnasium id, such as CartPole-v1, MinAtar/Breakout-v1 or ALE/Pong-v5")
    agent: str = setting("bdqn", f"who learns: {', '.join(AGENTS)}")
    preset: str = setting("default", "where settings come from that are not given (bdqn presets lists them)")
    steps: int | None = setting(None, "decisions to train for; unset: as many as the preset says", minimum=1)
    seed: int = setting(0, "the one seed that everything random derives from", minimum=0)
    num_envs: int = setting(1, "environments stepped together", minimum=1)
    out: str | None = setting(None, "the run's directory; unset: runs/ENV/AGENT/TIME_sSEED")
    log_freq: int = setting(1_000, "decisions between rows of metrics.csv", minimum=1)
    eval_freq: int = setting(0, "decisions between evaluations, which do not touch training; 0: none", minimum=0)
    eval_episodes: int = setting(10, "episodes per evaluation", minimum=1)
    device: str = setting("cpu", "where the network computes: cpu, cuda, ...")
    threads: int | None = setting(
        None,
        "torch's threads; unset: 1, or all cores for Atari (small networks are faster on one)",
        minimum=1,
    )


def run(argv: list[str]) -> int:
    """Train, record, save, and say what came of it."""
    options, overrides, args = _parse(argv)
    env_kwargs = environment_kwargs(args.env_kwargs)
    with correctable():
        configuration = _configure(options, overrides)
    learner = _learner(options, configuration, env_kwargs)
    steps = options.steps or configuration.total_steps

    from bdqn.posterior import PosteriorError
    from bdqn.progress import progress
    from bdqn.record import RunRecord, claim_directory, new_directory
    from bdqn.run import Watch, train

    with correctable():
        folder = (
            claim_directory(Path(options.out))
            if options.out is not None
            else new_directory(Path("runs"), options.env, options.agent, options.seed)
        )
    if not args.quiet:
        _announce(learner, steps, folder)
    watch = Watch(options.log_freq, options.eval_freq, options.eval_episodes)
    command = shlex.join(["bdqn", "train", *argv])
    with RunRecord(folder, learner, steps, command=command, tensorboard=args.tensorboard) as record:
        try:
            with progress(steps, quiet=args.quiet) as display, interruptible() as stop:
                complete = train(learner, steps, record, watch, display, stop)
        except PosteriorError as error:
            saved = record.checkpoint("failed")
            learner.save(saved)
            raise RunFailed(f"After {learner.num_timesteps:,} decisions: {error} What it was is in {saved}.") from error
        learner.save(record.checkpoint("final"))
        record.status = "finished" if complete else "interrupted"
    _conclude(learner, record, complete)
    return 0 if complete else 130


# --- what was asked for ---------------------------------------------------------------------------------


def _parse(argv: list[str]) -> tuple[Options, dict[str, Any], Namespace]:
    """The run's options first: agent and environment decide which settings there are."""
    parser, known = _parser(), settings_of(Options)
    add_settings(parser, known, vars(Options()))
    first, _ = parser.parse_known_args(argv)
    options = build(Options, given(first, known))
    settings = _add_agent_settings(parser, options)
    if first.help:
        parser.print_help()
        raise SystemExit(0)
    args = parser.parse(argv)
    if not options.env:
        raise SettingError("Which environment? For example: bdqn train --env CartPole-v1")
    return options, given(args, settings), args


def _parser() -> Parser:
    parser = Parser(
        prog="bdqn train",
        usage="bdqn train --env ENV [--agent AGENT] [--steps N] [--seed N] [--any-setting VALUE ...]",
        description="Train an agent and record the run. Values in [brackets] hold unless others are given.",
        add_help=False,  # the settings are not known yet
    )
    parser.add_argument("-h", "--help", action="store_true", help="with --env: every setting and its value")
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
    from bdqn.configure import known_settings

    with correctable():
        configuration = _configure(options, {})
    settings = known_settings(agent, configuration.family)
    title = f"settings of {agent} on {options.env}, values of preset {configuration.preset}"
    add_settings(parser.add_argument_group(title), settings, configuration.values)
    return settings


def _configure(options: Options, overrides: dict[str, Any]) -> Configuration:
    from bdqn.configure import configure
    from bdqn.envs import family

    return configure(options.agent, family(options.env), options.preset, overrides)


def _learner(options: Options, configuration: Configuration, env_kwargs: dict[str, Any]) -> Learner:
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
        )


# --- Ctrl-C ---------------------------------------------------------------------------------------------


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C, or a request to terminate, take effect between two steps, where the agent is whole.

    The second Ctrl-C takes effect at once.
    """
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- what is said ---------------------------------------------------------------------------------------


def _announce(learner: Learner, steps: int, folder: Path) -> None:
    from bdqn.envs import describe

    configuration = learner.configuration
    agent = configuration.agent
    print(f"{AGENTS[agent].summary} ({agent}) on {learner.env_source}, seed {learner.seed}")
    rows = {
        "family": configuration.family,
        "preset": f"{configuration.preset} (presets/{configuration.preset}.toml)",
        "protocol": describe(learner.envs.envs[0]),
        "decisions": f"{steps:,} in {learner.envs.num_envs} environment(s)",
        "run": str(folder),
    }
    print_rows(rows)


def _conclude(learner: Learner, record: RunRecord, complete: bool) -> None:
    if not complete:
        saved = record.checkpoint("final")
        print(f"Interrupted after {learner.num_timesteps:,} decisions; the agent is saved in {saved}")
    mean = "no episode ended" if record.mean_return is None else f"{record.mean_return:.2f}"
    print(f"Mean return of the last 100 episodes: {mean}")
    print(f"Speed: {learner.num_timesteps / record.seconds:,.0f} steps/s")
    print(f"Files: {record.folder}")
    print(f"Evaluate it: {shlex.join(['bdqn', 'evaluate', str(record.folder)])}")
