"""Double DQN (van Hasselt et al., 2016): the agent that every other recipe states its difference from.

One linear last layer trained by gradients, epsilon-greedy actions, the online network selecting the next action
and the target network evaluating it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bdqn.config.settings import setting

if TYPE_CHECKING:
    from bdqn.qlearning.choices import Choices, Policy


@dataclass(frozen=True)
class Exploration:
    """Epsilon-greedy exploration."""

    exploration_initial_eps: float = setting(1.0, "epsilon at the start", minimum=0, maximum=1)
    exploration_final_eps: float = setting(0.05, "epsilon after the decay", minimum=0, maximum=1)
    exploration_decay_steps: int = setting(10_000, "decisions over which epsilon decays linearly", minimum=1)


@dataclass(frozen=True)
class Settings(Exploration):
    """Epsilon-greedy exploration, and the last layer."""

    relu_q: bool = setting(False, "end in a ReLU, so that Q is never negative (the released program's baselines)")


def choices(settings: Settings) -> Choices:
    """Linear head, epsilon-greedy, no draws, double Q."""
    from bdqn.networks.heads import LinearHead, RectifiedHead
    from bdqn.qlearning.choices import Choices
    from bdqn.qlearning.targets import double_q

    head = RectifiedHead if settings.relu_q else LinearHead
    return Choices(head=head, policy=policy(settings), redraw=None, bootstrap=double_q)


def policy(settings: Exploration) -> Policy:
    """Epsilon-greedy under the mean, which is all that a head without draws has."""
    import numpy as np

    from bdqn.qlearning import rules
    from bdqn.qlearning.view import QView

    def epsilon_greedy(q: QView, step: int, rng: np.random.Generator) -> rules.Actions:
        start, end = settings.exploration_initial_eps, settings.exploration_final_eps
        epsilon = rules.linear_schedule(step, start, end, settings.exploration_decay_steps)
        return rules.epsilon_greedy(q.mean, epsilon, rng, q.allowed)

    return epsilon_greedy
