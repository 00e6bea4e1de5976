"""Finite episodic MDPs with their exact optimum: V*, Q* and its weights omega*.

The setting of the paper's Section 2: horizon H, discount gamma, features phi_h(x, a) in R^d, and an optimal Q-function
that is linear in them, Q*_h(x, a) = phi_h(x, a) . omega*_h. Rewards are scaled so that V* lies in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

LINEAR_TOLERANCE = 1e-8  # largest distance of Q* from the span of the features, for rounding


def q_values(rewards: Array, transitions: Array, gamma: float, value: Array) -> Array:
    """Q(x, a) = r(x, a) + gamma sum_x' P(x' | x, a) V(x'), for one step. (..., S, A)"""
    *batch, states, actions, _ = transitions.shape
    flat = transitions.reshape(*batch, states * actions, states)  # one large product is faster than many small ones
    return np.asarray(rewards + gamma * (flat @ value[..., None])[..., 0].reshape(rewards.shape))


def optimal_q(rewards: Array, transitions: Array, gamma: float) -> Array:
    """Q* by backward induction. (..., H, S, A)"""
    q = np.empty_like(rewards)
    value = np.zeros(rewards.shape[:-3] + rewards.shape[-2:-1])
    for h in reversed(range(rewards.shape[-3])):
        q[..., h, :, :] = q_values(rewards[..., h, :, :], transitions[..., h, :, :, :], gamma, value)
        value = q[..., h, :, :].max(-1)
    return q


def policy_value(policy: Array, rewards: Array, transitions: Array, gamma: float) -> Array:
    """V^pi at the first step, of a policy given as probabilities (..., H, S, A). (..., S)"""
    value = np.zeros(policy.shape[:-3] + policy.shape[-2:-1])
    for h in reversed(range(policy.shape[-3])):
        q = q_values(rewards[..., h, :, :], transitions[..., h, :, :, :], gamma, value)
        value = (policy[..., h, :, :] * q).sum(-1)
    return value


@dataclass(frozen=True, eq=False)
class MDP:
    """One problem. States and actions are numbered. All arrays have a leading axis for steps h = 1..H (index h - 1).

    Rewards have Gaussian noise of standard deviation ``reward_noise``. ``rewards`` are their means, within
    ``reward_range``.
    """

    name: str
    features: Array  # (H, S, A, d)
    rewards: Array  # (H, S, A)
    transitions: Array  # (H, S, A, S)
    start: Array  # (S,)
    gamma: float = 1.0
    reward_noise: float = 0.0
    reward_range: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        _require_shapes(self)
        _require_probabilities("start", self.start)
        _require_probabilities("transitions", self.transitions)
        _require_rewards(self)
        _require_values_in_the_unit_interval(self)
        _require_linear(self)

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.features.shape[0])

    @property
    def states(self) -> int:
        """S."""
        return int(self.features.shape[1])

    @property
    def actions(self) -> int:
        """A."""
        return int(self.features.shape[2])

    @property
    def dim(self) -> int:
        """d."""
        return int(self.features.shape[3])

    @cached_property
    def q_star(self) -> Array:
        """Q*. (H, S, A)"""
        return optimal_q(self.rewards, self.transitions, self.gamma)

    @cached_property
    def v_star(self) -> Array:
        """V*. (H, S)"""
        return np.asarray(self.q_star.max(-1))

    @cached_property
    def optimal_actions(self) -> Indices:
        """pi*, the first of equally good actions. (H, S)"""
        return np.asarray(self.q_star.argmax(-1))

    @cached_property
    def omega_star(self) -> Array:
        """omega*, the solution of least norm. (H, d)"""
        rows = self.features.reshape(self.horizon, -1, self.dim)
        return np.asarray((np.linalg.pinv(rows) @ self.q_star.reshape(self.horizon, -1, 1))[..., 0])

    @cached_property
    def sigma(self) -> float:
        """Sub-Gaussian scale of nu_h = r_h + gamma V*_{h+1}(x') - Q*_h(x, a).

        A variable in an interval is sub-Gaussian with half its length (Hoeffding), and the squares of independent
        scales add up: the noise of the reward, and half the range of gamma V* over the possible next states.
        """
        if self.horizon == 1:
            return self.reward_noise
        ahead = np.broadcast_to(self.v_star[1:, None, None, :], self.transitions[:-1].shape)
        possible = self.transitions[:-1] > 0
        spread = np.where(possible, ahead, -np.inf).max(-1) - np.where(possible, ahead, np.inf).min(-1)
        return float(np.hypot(self.reward_noise, self.gamma * spread.max() / 2))

    @cached_property
    def feature_norm(self) -> float:
        """L, the largest norm of a feature vector."""
        return float(np.linalg.norm(self.features, axis=-1).max())

    @cached_property
    def weight_norm(self) -> float:
        """L_omega, the largest norm of omega*_h."""
        return float(np.linalg.norm(self.omega_star, axis=-1).max())


@dataclass(frozen=True)
class Known:
    """What the theorems allow an agent to know. The bounds hold for every replica of a batch.

    ``optimal_actions`` is an oracle. Confidence sets use it for the coefficient rho, and only on request.
    """

    features: Array  # (R, H, S, A, d)
    gamma: float
    sigma: float
    feature_norm: float  # L
    weight_norm: float  # L_omega
    optimal_actions: Indices | None = None  # (R, H, S)

    @property
    def horizon(self) -> int:
        return int(self.features.shape[1])

    @property
    def states(self) -> int:
        return int(self.features.shape[2])

    @property
    def dim(self) -> int:
        return int(self.features.shape[-1])

    @property
    def discounts(self) -> Array:
        """gamma^{h-1}. (H,)"""
        return np.asarray(float(self.gamma) ** np.arange(self.horizon))


@dataclass(frozen=True, eq=False)
class Replicas:
    """R problems of the same shape, played in parallel; every array has a leading axis R."""

    mdps: tuple[MDP, ...]
    gamma: float
    features: Array  # (R, H, S, A, d)
    rewards: Array  # (R, H, S, A)
    transitions: Array  # (R, H, S, A, S)
    start: Array  # (R, S)
    q_star: Array  # (R, H, S, A)
    omega_star: Array  # (R, H, d)

    @classmethod
    def of(cls, mdps: Sequence[MDP]) -> Replicas:
        """Stack problems. Repetitions of the same problem take no memory."""
        if not mdps:
            raise ValueError("There is no problem to play: give at least one.")
        shapes = {(mdp.features.shape, mdp.gamma) for mdp in mdps}
        if len(shapes) > 1:
            raise ValueError(f"Replicas must share H, S, A, d and gamma, but these differ: {sorted(shapes)}.")

        def together(name: str) -> Array:
            arrays = [getattr(mdp, name) for mdp in mdps]
            if all(mdp is mdps[0] for mdp in mdps):
                return np.broadcast_to(arrays[0], (len(mdps), *arrays[0].shape))
            return np.stack(arrays)

        names = ("features", "rewards", "transitions", "start", "q_star", "omega_star")
        return cls(tuple(mdps), mdps[0].gamma, *map(together, names))

    def __len__(self) -> int:
        return len(self.mdps)

    @cached_property
    def known(self) -> Known:
        """What agents may know, with bounds that hold for all replicas."""
        return Known(
            self.features,
            self.gamma,
            sigma=max(mdp.sigma for mdp in self.mdps),
            feature_norm=max(mdp.feature_norm for mdp in self.mdps),
            weight_norm=max(mdp.weight_norm for mdp in self.mdps),
            optimal_actions=np.asarray(self.q_star.argmax(-1)),
        )


def _require_shapes(mdp: MDP) -> None:
    if mdp.features.ndim != 4:
        raise ValueError(f"features must have the axes (H, S, A, d), not the shape {mdp.features.shape}.")
    horizon, states, actions, dim = mdp.features.shape
    if horizon < 1:
        raise ValueError("H must be at least 1, not 0.")
    if dim < 1:
        raise ValueError("d must be at least 1, not 0.")
    expected = {
        "rewards": (horizon, states, actions),
        "transitions": (horizon, states, actions, states),
        "start": (states,),
    }
    for name, shape in expected.items():
        found = getattr(mdp, name).shape
        if found != shape:
            raise ValueError(f"{name} must have the shape {shape} to match features {mdp.features.shape}, not {found}.")
    for name in ("features", *expected):
        if not np.isfinite(getattr(mdp, name)).all():
            raise ValueError(f"{name} must be finite, without NaN or infinity.")
    if not 0 <= mdp.gamma <= 1:
        raise ValueError(f"gamma must be between 0 and 1, not {mdp.gamma!r}.")
    if not 0 <= mdp.reward_noise < np.inf:
        raise ValueError(f"reward_noise is a standard deviation and must be 0 or more, not {mdp.reward_noise!r}.")


def _require_probabilities(name: str, table: Array) -> None:
    if (table < 0).any() or not np.allclose(table.sum(-1), 1):
        raise ValueError(
            f"{name} must be probabilities: none negative, each row summing to 1. Divide rows by their sum."
        )


def _require_rewards(mdp: MDP) -> None:
    low, high = mdp.reward_range
    least, most = float(mdp.rewards.min()), float(mdp.rewards.max())
    if least < low - 1e-12 or most > high + 1e-12:
        raise ValueError(
            f"Mean rewards go from {least:.4g} to {most:.4g}, outside the declared range {low:g} to {high:g}: "
            "declare a wider reward_range, or rescale the rewards."
        )


def _require_values_in_the_unit_interval(mdp: MDP) -> None:
    least, most = float(mdp.v_star.min()), float(mdp.v_star.max())
    if least < -1e-9 or most > 1 + 1e-9:
        raise ValueError(
            f"V* goes from {least:.4g} to {most:.4g}, but the theory needs it between 0 and 1: shift the rewards so "
            "that no optimal value is negative, and divide them by the largest."
        )


def _require_linear(mdp: MDP) -> None:
    fitted = (mdp.features @ mdp.omega_star[:, None, :, None])[..., 0]
    error = float(np.abs(fitted - mdp.q_star).max())
    if error > LINEAR_TOLERANCE:
        raise ValueError(
            f"Q* is not linear in these features: the best omega misses it by {error:.3g}. Add features "
            "(one per state and action always suffices), or build the rewards from the weights."
        )
