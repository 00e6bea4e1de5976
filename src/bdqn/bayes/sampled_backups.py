"""Sampled backups: draws of Q that are consistent with their own future (RLSVI on a network's features). NumPy only.

A plain posterior draw perturbs the weights of a regression whose targets are the mean's: what is uncertain two steps
ahead leaves no trace here. A sampled backup fits the same regression to the draw's own values of the next observations,
W <- regress(r + gamma max_a W phi(x')) + u, with the draw's perturbation u held fixed, as often as it takes. The mean
goes the same way, with no perturbation: it is what the draws lie around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bdqn.bayes.numerics import Array, solve
from bdqn.bayes.posterior import Posterior


@dataclass(frozen=True)
class Transitions:
    """The rows of a regression, and where each leads to.

    In float64: what float32 loses in a sum over thousands of equal transitions is divided by the ridge where the
    posterior is still the prior, and draws would go astray there.
    """

    x: Array  # (n, d)
    count: NDArray[np.int64]  # how many equal transitions a row stands for
    action: NDArray[np.int64]
    reward: NDArray[np.float32]
    discount: NDArray[np.float32]  # 0 at an end
    next_x: Array  # (n, d)

    def by_action(self, num_actions: int) -> tuple[Transitions, list[slice]]:
        """The same rows, those of each action together; and where these are."""
        order = np.argsort(self.action, kind="stable")
        ends = np.searchsorted(self.action[order], np.arange(num_actions + 1))
        parts = (part[order] for part in vars(self).values())
        return Transitions(*parts), [slice(ends[a], ends[a + 1]) for a in range(num_actions)]


def joined(pieces: Sequence[Transitions]) -> Transitions:
    """All rows, one piece after the other."""
    return Transitions(*(np.concatenate(parts) for parts in zip(*(vars(p).values() for p in pieces), strict=True)))


def sampled_backups(
    posterior: Posterior,
    transitions: Transitions,
    rng: np.random.Generator,
    count: int,
    sweeps: int,
    *,
    temperature: float = 1.0,
    beyond: float = np.inf,
) -> tuple[Array, Array]:
    """The mean (actions, d) and ``count`` draws (count, actions, d), each backed up ``sweeps`` times.

    The mean's values of next observations are kept within the range that the regression's own mean gives to them, and
    a draw's within ``beyond`` of that range: a regression that extrapolates could otherwise raise its own targets for
    ever, and what the mean overestimates, the features learn.
    """
    weights = np.concatenate([posterior.mean[None], posterior.sample(rng, count, temperature)])
    perturbation = weights - posterior.mean
    rows, places = transitions.by_action(len(posterior.mean))
    mean_values = (rows.next_x @ posterior.mean.T).max(1)
    room = np.array([0.0, *[beyond] * count])
    low, high = mean_values.min() - room, mean_values.max() + room
    # Many sweeps with one precision: its inverse, once, and then products, which are faster than triangular solves.
    inverse = solve(posterior.factor, np.broadcast_to(np.eye(posterior.dim), posterior.factor.shape))
    for _ in range(sweeps):
        value = _best_values(rows.next_x, weights).clip(low, high)  # (n, 1 + count)
        target = rows.count[:, None] * (rows.reward[:, None] + rows.discount[:, None] * value)
        # Few draws times many rows: this way round the product reads the rows as they lie in memory.
        cross = np.stack([target[place].T @ rows.x[place] for place in places])  # (actions, 1 + count, d)
        weights = np.swapaxes(cross @ inverse, 0, 1) + perturbation
    return weights[0], weights[1:]


def _best_values(x: Array, weights: Array) -> Array:
    """max_a W_a . x of every row under every W (n, count)."""
    count, num_actions, dim = weights.shape
    # One large product for all W: the rows are read once, not once for each. Action by action, for the maximum.
    q = x @ np.swapaxes(weights, 0, 1).reshape(-1, dim).T
    best = q[:, :count].copy()
    for action in range(1, num_actions):
        np.maximum(best, q[:, action * count : (action + 1) * count], out=best)
    return best
