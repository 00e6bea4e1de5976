"""``bdqn doctor``: what is installed, how fast it is, and how long a preset would take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bdqn.cli.common import prepare_torch, print_rows, user_errors
from bdqn.cli.layout import print_folded
from bdqn.cli.options import Parser
from bdqn.config.extras import EXTRAS, how_to_install
from bdqn.config.memory import free_memory
from bdqn.runs.progress import duration
from bdqn.storage.provenance import machine, versions

if TYPE_CHECKING:
    from bdqn.config.resolve import Configuration
    from bdqn.learner import Learner

WARM_UP = 1_000  # random decisions: enough for a first refit
SECONDS = 2.5  # for each of the two measurements


@dataclass(frozen=True)
class Speed:
    """Seconds that each part of training takes on this machine."""

    acting: float  # per decision: network and environment
    training: float  # per decision: acting, storing and updating, without refits
    refit_sample: float  # per transition of a refit; 0 without refits

    def per_decision(self, learner: Learner) -> float:
        """Return the seconds per decision, with refits at full size."""
        fit = learner.agent.choices.fit
        return self.training + (fit.batch_size / fit.longest_interval * self.refit_sample if fit else 0.0)


def run(argv: list[str]) -> int:
    """Describe the installation and, with --env, measure speed."""
    parser = Parser(
        prog="bdqn doctor",
        description="Show what is installed. With --env, train briefly to estimate a preset's time and memory.",
    )
    parser.add_argument("--env", help="environment to measure in")
    parser.add_argument("--agent", help="agent to measure [the preset's own]")
    parser.add_argument("--preset", default="default", help="preset to measure [%(default)s]")
    parser.add_argument("--device", default="cpu", help="device to measure on: cpu, cuda, ... [%(default)s]")
    args = parser.parse(argv)
    _describe_installation()
    if args.env:
        _examine(args.agent, args.env, args.preset, args.device)
    return 0


def _describe_installation() -> None:
    here = machine()
    rows = {name: found or "not installed" for name, found in versions().items()}
    rows["system"] = f"{here['system']}, {here['cores']} cores"
    rows["memory"] = f"{here['memory_gb']} GB, {free_memory() / 1e9:.1f} GB free"
    rows |= {
        f"extra {name}": f"{'installed' if extra.is_installed else 'not installed'} ({extra.use})"
        for name, extra in EXTRAS.items()
    }
    print_rows(rows)
    missing = [name for name, extra in EXTRAS.items() if not extra.is_installed]
    if missing:
        print(f"To install the missing extras, {how_to_install(*missing)}")


def _examine(agent: str | None, env: str, preset: str, device: str) -> None:
    """Measure a short training run with a preset, and print what the whole run would take."""
    from bdqn.config.preset_files import default_agent
    from bdqn.config.resolve import configure
    from bdqn.envs import family

    with user_errors():
        configuration = configure(agent or default_agent(preset, family(env)), family(env), preset)
        learner = small_learner(configuration, env, device)
    size = configuration.training.buffer_size
    replay = size * learner.agent.replay.frame_bytes
    free = free_memory()
    speed = measure(learner)
    steps = configuration.total_steps
    seconds = steps * speed.per_decision(learner)
    print(f"\n{configuration.agent} on {env}, preset {configuration.preset}, device {device}")
    print_rows(
        {
            "acting": f"{1 / speed.acting:,.0f} steps/s",
            "training": f"{steps / seconds:,.0f} steps/s",
            "replay": f"{size:,} frames, {replay / 1e6:,.0f} MB of {free / 1e6:,.0f} MB free"
            + ("" if replay < 0.9 * free else ": too large, set --buffer-size"),
            "whole run": f"{steps:,} decisions in about {duration(seconds)}",
        }
    )
    print_folded(
        [
            "This estimate comes from a few seconds at the machine's current load. It may be off by half, and excludes "
            "loading and evaluations."
        ]
    )


def small_learner(configuration: Configuration, env: str, device: str = "cpu") -> Learner:
    """Create the preset's learner, but with early learning and a small replay buffer."""
    from bdqn.learner import Learner

    prepare_torch(device, configuration.family)
    size = min(configuration.training.buffer_size, 20_000)
    training = replace(configuration.training, learning_starts=WARM_UP, buffer_size=size)
    return Learner(replace(configuration, training=training), env, device=device)


def measure(learner: Learner, seconds: float = SECONDS) -> Speed:
    """Time acting, training and refitting separately: refits are rare and grow with the replay buffer."""
    agent = learner.agent
    last_layer = agent.last_layer
    learner.learn(WARM_UP)
    refit_sample = 0.0
    if last_layer is not None:
        start = time.perf_counter()
        agent.fit_last_layer()
        refit_sample = (time.perf_counter() - start) / min(last_layer.choice.batch_size, len(agent.replay))
    agent.last_layer = None
    training = _seconds_per_call(lambda: learner.learn(100), seconds) / 100
    agent.last_layer = last_layer
    # Acting alone comes last, because it does not store transitions.
    acting = _seconds_per_call(lambda: learner.envs.step(agent.act(learner.envs.obs, learner.envs.allowed)), seconds)
    return Speed(acting, training, refit_sample)


def _seconds_per_call(function: Callable[[], object], seconds: float) -> float:
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds or not calls:
        function()
        calls += 1
    return elapsed / calls
