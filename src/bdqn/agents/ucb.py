"""UCB-DQN: optimism from Bayesian DQN's posterior. This is Double DQN with:

- head: Bayesian DQN's, a Gaussian posterior over the last layer's weights of each action, whose mean stands for draws
- policy: greedy under mean + ucb_scale * standard deviation of Q
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bdqn.agents import bdqn, ddqn
from bdqn.config.settings import setting

if TYPE_CHECKING:
    from bdqn.qlearning.choices import Choices


@dataclass(frozen=True)
class Settings(bdqn.PosteriorSettings):
    """The posterior, and how optimistic it is."""

    ucb_scale: float = setting(1.0, "standard deviations of optimism", minimum=0)


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with Bayesian DQN's head and fit, and optimism."""
    from functools import partial

    from bdqn.qlearning.choices import optimistic

    return replace(
        ddqn.choices(ddqn.Settings()),
        head=partial(bdqn.head_class(settings), **bdqn.head_options(settings)),
        policy=optimistic(settings.ucb_scale),
        fit=bdqn.fit(settings),
        frozen_prior=bdqn.frozen_prior(settings),
    )
