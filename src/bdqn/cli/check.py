"""``bdqn check``: whether an environment is suitable for learning, and which agent would learn in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from bdqn.cli.common import user_errors
from bdqn.cli.options import Parser, add_settings, environment_kwargs, given
from bdqn.config.settings import build, setting, settings_of
from bdqn.storage.safe_files import printable


@dataclass(frozen=True)
class Options:
    """Options of ``bdqn check``."""

    episodes: int = setting(5, "episodes to play with random actions, within 10,000 decisions", minimum=1)
    seed: int = setting(0, "seed of the environment and of the actions", minimum=0)


def run(argv: list[str]) -> int:
    """Play and print the findings. Returns 2 if there are errors."""
    parser = Parser(
        prog="bdqn check",
        description="Play a few episodes with random actions and report what an agent would meet. Each line is ok, a "
        "note, a warning (learning works, but perhaps not as intended) or an error (learning is impossible).",
    )
    parser.add_argument("env", metavar="ENV", help="a Gymnasium id, or module:Id if a module registers it")
    parser.add_argument(
        "--env-kwargs", nargs="+", default=[], metavar="K=V", help="keyword arguments of the environment"
    )
    add_settings(parser, settings_of(Options), vars(Options()))
    args = parser.parse(argv)
    options = build(Options, given(args, settings_of(Options)))
    kwargs = environment_kwargs(args.env_kwargs)

    from bdqn.envs.check import check_env

    with user_errors():
        findings = check_env(args.env, episodes=options.episodes, seed=options.seed, env_kwargs=kwargs)
    levels = Counter(finding.level for finding in findings)
    print(args.env)
    for finding in findings:
        print(f"  {printable(finding)}")
    if not levels["error"]:
        with user_errors():
            line = _learner_line(args.env, kwargs)
        print(f"  {printable(line)}")
    print(f"{levels['error']} error(s), {levels['warning']} warning(s), {levels['note']} note(s)")
    return 2 if levels["error"] else 0


def _learner_line(env_id: str, kwargs: dict[str, Any]) -> str:
    """Describe the default agent for an environment."""
    from bdqn.config.preset_files import default_agent
    from bdqn.config.resolve import configure
    from bdqn.envs import family, make_env
    from bdqn.envs.adapted import adapted
    from bdqn.envs.check import Finding, close
    from bdqn.envs.observations import observation_spec
    from bdqn.networks.torsos import describe

    configuration = configure(default_agent("default", family(env_id)), family(env_id))
    env = make_env(env_id, env_kwargs=kwargs)
    spec = observation_spec(adapted(env))
    close(env)
    training = configuration.training
    layers = 1 if spec.is_image else training.mlp_layers
    text = f"family {configuration.family}, preset {configuration.preset}; the network reads {describe(spec)}, then "
    return str(Finding("ok", "agent", f"{text}{layers} dense layer(s) of {training.features}."))
