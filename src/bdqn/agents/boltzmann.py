"""Boltzmann exploration. This is Double DQN with:

- policy: actions drawn from a softmax of Q, whose temperature decays (instead of epsilon-greedy)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bdqn.agents import ddqn
from bdqn.config.settings import setting

if TYPE_CHECKING:
    from bdqn.qlearning.choices import Choices


@dataclass(frozen=True)
class Settings:
    """The softmax's temperature, in the unit of Q as it is learned (after reward_scaling)."""

    initial_temperature: float = setting(1.0, "temperature at the start", minimum=0)
    final_temperature: float = setting(0.02, "temperature after the decay; 0: greedy", minimum=0)
    temperature_decay_steps: int = setting(10_000, "decisions over which it decays linearly", minimum=1)


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with another policy."""
    import numpy as np

    from bdqn.qlearning.rules import Actions, boltzmann, linear_schedule
    from bdqn.qlearning.view import QView

    def softmax(q: QView, step: int, rng: np.random.Generator) -> Actions:
        temperature = linear_schedule(
            step, settings.initial_temperature, settings.final_temperature, settings.temperature_decay_steps
        )
        return boltzmann(q.mean, temperature, rng, q.allowed)

    return replace(ddqn.choices(ddqn.Settings()), policy=softmax)
