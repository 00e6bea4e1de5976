"""Acting apart from training: an agent's belief and policy, with a generator and draws of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bdqn.qlearning.draws import Draws
from bdqn.qlearning.rules import Actions, Allowed, epsilon_greedy, or_uniform, uniform

if TYPE_CHECKING:
    from bdqn.qlearning.agent import QAgent
    from bdqn.qlearning.choices import Policy
    from bdqn.qlearning.view import QView


def choose(
    agent: QAgent,
    view: QView,
    rng: np.random.Generator,
    *,
    greedy: bool = False,
    epsilon: float = 0.0,
    policy: Policy | None = None,
) -> Actions:
    """By the policy, or without exploring: greedily under the mean, or by a vote; or by another ``policy``.

    ``epsilon`` is the share of uniformly random actions on top.
    """
    # An agent that never learns has no mean: what it does is its policy.
    if greedy and agent.choices.learns and policy is None:
        return epsilon_greedy(view.verdict, epsilon, rng, view.allowed)
    actions = (policy or agent.choices.policy)(view, agent.steps, rng)
    if not epsilon:
        return actions
    return np.where(rng.random(len(actions)) < epsilon, uniform(rng, *view.shape, view.allowed), actions)


class Actor:
    """Plays in N environments: greedily under the mean, or as in training, with draws that last as long as there."""

    def __init__(
        self,
        agent: QAgent,
        rng: np.random.Generator,
        num_envs: int = 1,
        *,
        greedy: bool,
        epsilon: float = 0.0,
        policy: Policy | None = None,
    ) -> None:
        """``epsilon`` is the share of uniformly random actions on top, ``policy`` another one than those two."""
        self._agent, self._rng, self._greedy, self._epsilon, self._policy = agent, rng, greedy, epsilon, policy
        self._draws = Draws(agent.online.head, None, num_envs, rng) if greedy else agent.draws.apart(num_envs, rng)
        self.redrawn = not greedy and agent.choices.redraw is not None  # whether the next action follows a new draw

    def view(self, obs: NDArray[Any], allowed: Allowed = None) -> QView:
        """What it believes about Q here, under the draw that acts."""
        acting = self._draws.acting
        return self._agent.view(obs, self._draws.training if acting is None else acting, allowed)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What kind of draw acts in each environment, where there are several kinds."""
        return self._draws.kinds

    def choose(self, view: QView) -> Actions:
        """One action for each environment."""
        actions = choose(self._agent, view, self._rng, greedy=self._greedy, epsilon=self._epsilon, policy=self._policy)
        return or_uniform(actions, self._draws.at_random, self._rng, view.shape[1], view.allowed)

    def advance(self, ended: NDArray[np.bool_], reward: NDArray[np.float64], obs: NDArray[Any]) -> None:
        """Each environment has taken a decision; in some an episode ended with it."""
        before = self._draws.acting
        self._draws.advance(ended, reward, obs)
        self.redrawn = self._draws.acting is not before
