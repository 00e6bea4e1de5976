"""Uniformly random actions: the floor of every comparison. This is Double DQN with: no learning, no greed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bdqn.agents import ddqn

if TYPE_CHECKING:
    from bdqn.qlearning.choices import Choices


@dataclass(frozen=True)
class Settings:
    """Nothing to set."""


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with a policy that looks at nothing, and no learning."""
    import numpy as np

    from bdqn.qlearning import rules
    from bdqn.qlearning.view import QView

    def uniform(q: QView, step: int, rng: np.random.Generator) -> rules.Actions:
        return rules.uniform(rng, *q.shape, q.allowed)

    return replace(ddqn.choices(ddqn.Settings()), policy=uniform, learns=False)
