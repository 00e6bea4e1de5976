"""Sampled backups: draws of Q that are consistent with their own future (RLSVI on a network's features). NumPy only.

A plain posterior draw perturbs the weights of a regression whose targets are the mean's: what is uncertain two steps
ahead leaves no trace here. A sampled backup fits the same regression to the draw's own values of the next observations,
W <- regress(r + gamma max_a W phi(x')) + u, with the draw's perturbation u held fixed, as often as it takes. The mean
goes the same way, with no perturbation: it is what the draws lie around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.bayes.numerics import Array, inverse
from bdqn.bayes.posterior import Posterior


@dataclass(frozen=True)
class Transitions:
    """The rows of a regression, and where each leads to.

    Regressors are float64: what float32 loses in a sum over thousands of equal transitions is divided by the ridge
    where the posterior is still the prior, and draws would go astray there. Next ones are only ever multiplied by
    weights, row by row, and float32 halves what a sweep reads.
    """

    x: Array  # (n, d)
    count: NDArray[np.int64]  # how many equal transitions a row stands for
    action: NDArray[np.int64]
    reward: NDArray[np.float32]
    discount: NDArray[np.float32]  # 0 at an end
    next_x: NDArray[np.float32]  # (m, d)
    returns: tuple[float, float] = (-np.inf, np.inf)  # least and largest discounted return that was seen, if known
    recur: bool = False  # whether most transitions were met before, if known
    chance: float = 0.0  # how probably the same action at the same place leads elsewhere, if known
    next_allowed: NDArray[np.bool_] | None = None  # (m, actions) which may be taken at the next one; None: all
    leads_to: NDArray[np.int64] | None = None  # (n,) to which next one; None: each row to its own
    part: NDArray[np.int64] | None = None  # (d,) of which regressors these are values; the others are zero; None: all

    @property
    def columns(self) -> dict[str, Any]:
        """The arrays that have one entry for each row."""
        others = {"part"} if self.leads_to is None else {"part", "next_x", "next_allowed"}
        return {
            name: value for name, value in vars(self).items() if isinstance(value, np.ndarray) and name not in others
        }

    def by_action(self, num_actions: int) -> tuple[Transitions, list[slice]]:
        """The same rows, those of each action together; and where these are."""
        ordered = self
        if (np.diff(self.action) < 0).any():
            order = np.argsort(self.action, kind="stable")
            ordered = replace(self, **{name: column[order] for name, column in self.columns.items()})
        ends = np.searchsorted(ordered.action, np.arange(num_actions + 1))
        return ordered, [slice(ends[a], ends[a + 1]) for a in range(num_actions)]

    def values(self, mean: Array) -> NDArray[np.float32]:
        """max_a W_a . x' of every next observation (m,), under one W (actions, d)."""
        own = mean if self.part is None else mean[:, self.part]
        return _best_values(self.next_x, own[None], self.next_allowed)[:, 0]


def joined(pieces: Sequence[Transitions]) -> Transitions:
    """All rows, one piece after the other."""
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in pieces[0].columns
    }
    return replace(pieces[0], **columns)


# Of each action: by how much each target moves Q of each next observation (m, n), and Q without them (m, count).
Influence = list[tuple[NDArray[np.float32], NDArray[np.float32]]]


class BackedUpWeights:
    """Q-functions W that are regressed on their own values of what comes next, all under one posterior."""

    def __init__(
        self, posterior: Posterior, weights: Array, beyond: Array, part: NDArray[np.int64] | None = None
    ) -> None:
        """``weights`` (count, actions, d), and how far the values of each may leave the range of the mean's (count).

        Only the weights of the regressors in ``part`` change: the transitions have no others.
        """
        self._part = np.arange(weights.shape[-1]) if part is None else part
        self._given, self._beyond = weights, beyond
        self._mean = posterior.mean
        self.own = weights[..., self._part]
        self._perturbation = self.own - self._mean[:, self._part]
        # Many sweeps with one precision: its inverse, once, and then products, which are faster than triangular solves.
        self._inverse = inverse(posterior.factor[:, self._part[:, None], self._part])

    @property
    def weights(self) -> Array:
        """W as they are now (count, actions, d)."""
        weights = self._given.copy()
        weights[..., self._part] = self.own
        return weights

    def bounds(self, rows: Transitions) -> tuple[Array, Array]:
        """The least and the largest value that each W may give to a next observation."""
        values = rows.values(self._mean).clip(*rows.returns)
        return values.min() - self._beyond, values.max() + self._beyond

    def take(self, cross: Array) -> None:
        """The regression's answer to products of regressors and targets (actions, count, d)."""
        self.own = np.swapaxes(cross @ self._inverse, 0, 1) + self._perturbation

    def influence(self, rows: Transitions, places: Sequence[slice]) -> Influence:
        """What targets do to Q of the next observations.

        Weights may be large and cancel out, but a target moves no value by more than about its own size: float32 will
        do for the outcome.
        """
        next_x = rows.next_x.astype(np.float64)
        moved = [
            next_x @ (rows.count[place, None] * (rows.x[place] @ inverse)).T
            for place, inverse in zip(places, self._inverse, strict=True)
        ]
        own = [next_x @ perturbation.T for perturbation in np.swapaxes(self._perturbation, 0, 1)]
        return [(m.astype(np.float32), o.astype(np.float32)) for m, o in zip(moved, own, strict=True)]


def back_up(kinds: Sequence[BackedUpWeights], transitions: Transitions, sweeps: int, tolerance: float = 0.0) -> None:
    """So many sweeps of all ``kinds`` side by side: most of a sweep's time goes into reading the rows.

    They end as soon as no value changes by more than a share ``tolerance`` of the largest one.
    """
    rows, places = transitions.by_action(kinds[0].own.shape[1])
    low, high = (np.concatenate(ends).astype(np.float32) for ends in zip(*(k.bounds(rows) for k in kinds), strict=True))
    first = np.cumsum([len(kind.own) for kind in kinds])[:-1]
    few = len(rows.x) < rows.x.shape[1] * len(places)
    # Where rows are few, what targets do to the values of next observations is less to read than all regressors.
    influences = [kind.influence(rows, places) for kind in kinds] if few else []

    def fit_to(target: NDArray[np.float32]) -> None:
        weighted = rows.count[:, None] * target.astype(np.float64)
        # Few draws times many rows: this way round the product reads the rows as they lie in memory.
        cross = np.stack([weighted[place].T @ rows.x[place] for place in places])  # (actions, all of the W, d)
        for kind, own in zip(kinds, np.split(cross, first, axis=1), strict=True):
            kind.take(own)

    def values(target: NDArray[np.float32] | None) -> NDArray[np.float32]:
        if target is not None and few:
            each = zip(influences, np.split(target, first, axis=1), strict=True)
            return np.concatenate([_best_moved(moved, own, places, rows.next_allowed) for moved, own in each], axis=1)
        if target is not None:
            fit_to(target)
        return _best_values(rows.next_x, np.concatenate([kind.own for kind in kinds]), rows.next_allowed)

    target: NDArray[np.float32] | None = None
    before: NDArray[np.float32] = np.array(np.inf, np.float32)
    for _ in range(sweeps):
        value = values(target).clip(low, high)
        if (np.abs(value - before).max(0) <= tolerance * np.abs(value).max(0)).all():
            break
        before = value
        following = value if rows.leads_to is None else value[rows.leads_to]
        target = rows.reward[:, None] + rows.discount[:, None] * following
    if target is not None:
        fit_to(target)


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
    within the returns seen where those are known; a draw's, within ``beyond`` of that range. A regression that
    extrapolates could otherwise raise its own targets for ever, and what the mean overestimates, the features learn.
    """
    weights = np.concatenate([posterior.mean[None], posterior.sample(rng, count, temperature)])
    both = BackedUpWeights(posterior, weights, np.array([0.0, *[beyond] * count]), transitions.part)
    back_up([both], transitions, sweeps)
    weights = both.weights
    return weights[0], weights[1:]


def _best_moved(
    influence: Influence,
    target: NDArray[np.float32],
    places: Sequence[slice],
    allowed: NDArray[np.bool_] | None,
) -> NDArray[np.float32]:
    """max_a W_a . x' of every next observation (m, count), under the W that targets give."""
    best: NDArray[np.float32] = np.array(-np.inf, np.float32)
    for action, (place, (moved, without)) in enumerate(zip(places, influence, strict=True)):
        q = moved @ target[place]
        q += without
        if allowed is not None:
            q[~allowed[:, action]] = -np.inf
        best = np.maximum(best, q)
    return best


def _best_values(
    x: NDArray[np.float32], weights: Array, allowed: NDArray[np.bool_] | None = None
) -> NDArray[np.float32]:
    """max_a W_a . x of every row under every W (n, count), over the actions allowed there."""
    count, num_actions, dim = weights.shape
    # One large product for all W: the rows are read once, not once for each. Action by action, for the maximum.
    q = x @ np.swapaxes(weights, 0, 1).reshape(-1, dim).T.astype(np.float32)
    if allowed is not None:
        q.reshape(len(q), num_actions, count)[~allowed] = -np.inf
    best = q[:, :count].copy()
    for action in range(1, num_actions):
        np.maximum(best, q[:, action * count : (action + 1) * count], out=best)
    return best
