"""Linear agents for continuous states: a user's function computes the features of any observation.

The targets need the values of all next states visited so far, so episode t costs O(H t A d), or O(H t A d^2) if widths
are needed (LinUCB, pessimistic targets). Memory grows by H A d numbers per episode. For finitely many states,
``bdqn.linear.statistics`` avoids that growth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from bdqn.bayes.posterior import Moments
from bdqn.linear.agents import LinearAgent
from bdqn.linear.draws import Draws, choose
from bdqn.linear.mdps import Array, Known
from bdqn.linear.planning import Belief, Step
from bdqn.linear.recipes import TABULAR, Settings

FeatureFunction = Callable[[int, Any], Array]  # step h = 0..H-1 and observation -> (A, d)


class Environment(Protocol):
    """The part of Gymnasium's interface that is needed."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]: ...

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]: ...


class Visited:
    """The states visited at one step: features of all actions, the action taken, the reward and the next state."""

    def __init__(self, actions: int, dim: int) -> None:
        self._features = np.empty((16, actions, dim))
        self._taken = np.empty((16, dim))
        self._rewards = np.empty(16)
        self._next = np.empty(16, np.int64)  # row of the next state among those of the next step; -1: the end
        self._moments = Moments.zero(dim, (1,))  # of the rewards only
        self.count = 0

    @property
    def features(self) -> Array:
        """phi of every visited state and action. (1, t, A, d)"""
        return self._features[None, : self.count]

    def add(self, features: Array, action: int, reward: float, next_row: int) -> None:
        if self.count == len(self._rewards):  # double the capacity: amortised constant time
            for name in ("_features", "_taken", "_rewards", "_next"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.empty_like(array)]))
        row = self.count
        self._features[row], self._taken[row] = features, features[action]
        self._rewards[row], self._next[row] = reward, next_row
        self._moments = self._moments.add(features[action][None, None], np.array([[reward]]))
        self.count += 1

    def moments(self, ahead: Array | None) -> Moments:
        """The regression on r + ahead(x'), for ahead (1, t') at the states of the next step."""
        if ahead is None or not self.count:
            return self._moments
        values = np.append(ahead[0], 0.0)[self._next[: self.count]]  # no value after the end
        rewards, m = self._rewards[: self.count], self._moments
        return Moments(
            m.gram,
            m.cross + values @ self._taken[: self.count],
            m.squares + (2 * rewards + values) @ values,
            m.count,
        )


class VisitedStates:
    """A memory (see ``bdqn.linear.statistics``) whose states are those visited so far."""

    def __init__(self, horizon: int, actions: int, dim: int) -> None:
        self.at = [Visited(actions, dim) for _ in range(horizon)]

    @property
    def episodes(self) -> int:
        return self.at[0].count

    def features(self, h: int) -> Array:
        return self.at[h].features

    def visits(self, h: int) -> Array:
        return np.ones((1, self.at[h].count))

    def moments(self, h: int, ahead: Array | None) -> Moments:
        return self.at[h].moments(ahead)


class FeatureAgent:
    """LinPSRL, LinUCB or LSVI on a user's features, one environment at a time.

    ``sigma`` and ``weight_norm`` (L_omega) are the user's assumptions; scale rewards so that V* lies in [0, 1].
    """

    def __init__(
        self,
        settings: Settings,
        features: FeatureFunction,
        *,
        horizon: int,
        actions: int,
        dim: int,
        sigma: float,
        weight_norm: float = 1.0,
        feature_norm: float = 1.0,
        gamma: float = 1.0,
        seed: int = 0,
    ) -> None:
        if horizon < 1:
            raise ValueError(f"horizon must be at least 1, not {horizon}.")
        nothing_known = np.empty((1, horizon, 0, actions, dim))  # no state is known in advance
        if isinstance(settings, tuple(TABULAR.values())):
            raise TypeError(f"{type(settings).__name__} counts states and cannot use features: choose a linear agent.")
        agent = settings.make(Known(nothing_known, gamma, sigma, feature_norm, weight_norm))
        assert isinstance(agent, LinearAgent)
        self._agent, self._features = agent, features
        self._shape = (actions, dim)
        self._feature_norm = feature_norm
        self._memory = VisitedStates(horizon, actions, dim)
        self._draws = Draws([seed], "agent")
        self._plan: list[Step] = []
        self.horizon = horizon

    def begin(self) -> None:
        """Plan the next episode: one draw, or one set of bounds, for all its steps."""
        self._plan = self._agent.steps(self._memory, self._draws)

    def features(self, h: int, observation: Any) -> Array:
        """The user's features, checked. (A, d)"""
        phi = np.asarray(self._features(h, observation), np.float64)
        if phi.shape != self._shape:
            raise ValueError(f"The feature function must return (actions, d) = {self._shape}, not {phi.shape}.")
        if not np.isfinite(phi).all():
            raise ValueError(f"The feature function returned NaN or infinity at step {h + 1}: check its input.")
        longest = float(np.linalg.norm(phi, axis=-1).max())
        if longest > self._feature_norm * (1 + 1e-9):
            raise ValueError(
                f"A feature vector has norm {longest:.4g}, above feature_norm (L): scale features, or raise it."
            )
        return phi

    def act(self, h: int, phi: Array) -> int:
        """An action for these features (A, d)."""
        belief, guess, _ = self._plan[h]
        index = Belief(belief.posterior, phi[None, None], belief.theta).q(guess)[0]  # (1, A)
        return int(choose(self._agent.policy(index), self._draws.uniform(1)[0])[0])

    def learn(self, episode: list[tuple[Array, int, float]]) -> None:
        """Store an episode: features, action and reward of each step."""
        last = len(episode) - 1
        for h, (phi, action, reward) in enumerate(episode):
            if not np.isfinite(reward):
                raise ValueError(f"The reward at step {h + 1} is {reward!r}: rewards must be finite.")
            next_row = -1 if h == last else self._memory.at[h + 1].count
            self._memory.at[h].add(phi, action, reward, next_row)
        rewards = np.array([reward for _, _, reward in episode])
        self._agent.observe_returns(self._agent.known.discounts[None, : len(rewards)] @ rewards)


def play(env: Environment, agent: FeatureAgent, episodes: int, seed: int = 0) -> Array:
    """Play episodes of at most H steps and give their undiscounted returns. (episodes,)"""
    returns = np.zeros(episodes)
    for t in range(episodes):
        agent.begin()
        observation, _ = env.reset(seed=seed if t == 0 else None)
        episode: list[tuple[Array, int, float]] = []
        ended = False
        while not ended and len(episode) < agent.horizon:
            phi = agent.features(len(episode), observation)
            action = agent.act(len(episode), phi)
            observation, reward, terminated, truncated, _ = env.step(action)
            episode.append((phi, action, float(reward)))
            ended = terminated or truncated
        agent.learn(episode)
        returns[t] = sum(reward for _, _, reward in episode)
    return returns
