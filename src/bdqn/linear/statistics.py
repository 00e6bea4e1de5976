"""What linear agents store: sums whose size does not depend on the number of episodes.

Targets r + gamma V(x') change with every episode, because V does. But they are linear in V: with B_h the sum of
phi_i e_{x'_i}', the right-hand side of the regression is b_h + gamma B_h V. So updating all past targets costs O(d S),
whatever t is. Gram matrices never depend on targets.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from bdqn.bayes.posterior import Moments
from bdqn.linear.mdps import Array, Indices


class Episodes(NamedTuple):
    """One episode of every replica."""

    states: Indices  # (R, H)
    actions: Indices  # (R, H)
    rewards: Array  # (R, H)


class Memory(Protocol):
    """The statistics of past episodes that regressions need, and the states whose values are needed."""

    @property
    def episodes(self) -> int:
        """t, the number of episodes."""
        ...

    def features(self, h: int) -> Array:
        """phi_h at each of these states and actions. (R, S, A, d)"""
        ...

    def visits(self, h: int) -> Array:
        """N_h(x), the number of visits to each of these states at step h. (R, S)"""
        ...

    def moments(self, h: int, ahead: Array | None) -> Moments:
        """The regression of step h on targets r + ahead(x'), where ahead (R, S) is gamma V_{h+1}; None at the end."""
        ...


class Statistics:
    """The memory for finitely many states, updated in place."""

    def __init__(self, features: Array) -> None:
        self._features = features  # (R, H, S, A, d)
        replicas, horizon, states, _, dim = features.shape
        self._episodes = 0
        self._moments = Moments.zero(dim, (replicas, horizon))  # of the rewards only: chi_h, b_h, sum r^2
        self._next = np.zeros((replicas, horizon, states, dim))  # B_h': sum of phi by next state
        self._reward_next = np.zeros((replicas, horizon, states))  # sum of r by next state
        self._visits = np.zeros((replicas, horizon, states))  # N_h(x)
        self._replica, self._step = np.ogrid[:replicas, :horizon]

    @property
    def episodes(self) -> int:
        return self._episodes

    def features(self, h: int) -> Array:
        return self._features[:, h]

    def visits(self, h: int) -> Array:
        return self._visits[:, h]

    def add(self, played: Episodes) -> None:
        """Add one episode of every replica."""
        phi = self._features[self._replica, self._step, played.states, played.actions]  # (R, H, d)
        rewards = played.rewards
        self._episodes += 1
        self._moments.gram[...] += phi[..., :, None] * phi[..., None, :]
        self._moments.cross[...] += phi * rewards[..., None]
        self._moments.squares[...] += rewards * rewards
        self._moments.count[...] += 1
        self._visits[self._replica, self._step, played.states] += 1
        before, after = self._step[:, :-1], played.states[:, 1:]
        self._next[self._replica, before, after] += phi[:, :-1]
        self._reward_next[self._replica, before, after] += rewards[:, :-1]

    def moments(self, h: int, ahead: Array | None) -> Moments:
        rewards = Moments(*(getattr(self._moments, name)[:, h] for name in ("gram", "cross", "squares", "count")))
        if ahead is None:
            return rewards
        return Moments(
            rewards.gram,
            rewards.cross + (ahead[:, None, :] @ self._next[:, h])[:, 0],
            # (r + v)^2 = r^2 + 2 r v + v^2, where v depends only on the next state.
            rewards.squares + ((2 * self._reward_next[:, h] + self._visits[:, h + 1] * ahead) * ahead).sum(-1),
            rewards.count,
        )
