"""The regret bounds of Theorems 1 and 2, as printed and as corrected, and the coefficients rho_bar in them.

The corrected bounds have a factor 2 in the bias term of Lemma 1 (E1), log(H / delta) for the union over steps (E8), and
a determinant lemma that also holds for lambda below 1 (E6). docs/theory.md explains the numbers E...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bdqn.linear.confidence import noise_radius
from bdqn.linear.mdps import Array, Known

Version = Literal["printed", "corrected"]
FACTOR = {"printed": 1.0, "corrected": 2.0}  # in front of rho^{h+1} theta^{h+1}


@dataclass(frozen=True)
class Constants:
    """Constants in the bounds, besides rho, T and delta."""

    dim: int  # d
    horizon: int  # H
    sigma: float
    ridge: float = 1.0  # lambda
    feature_norm: float = 1.0  # L
    weight_norm: float = 1.0  # L_omega
    gamma: float = 1.0

    @classmethod
    def of(cls, known: Known, ridge: float) -> Constants:
        return cls(known.dim, known.horizon, known.sigma, ridge, known.feature_norm, known.weight_norm, known.gamma)


def amplification(rho: Array, gamma: float, version: Version) -> Array:
    """g_h = theta^h / beta: g_H = 1 and g_h = 1 + c gamma rho^{h+1} g_{h+1}. rho (..., H) -> (..., H)"""
    factor = np.ones_like(rho)
    for h in reversed(range(rho.shape[-1] - 1)):
        factor[..., h] = 1 + FACTOR[version] * gamma * rho[..., h + 1] * factor[..., h + 1]
    return factor


def rho_bar(rho: Array, gamma: float, version: Version = "corrected") -> Array:
    """rho_bar = sum_h gamma^{2(h-1)} (1 + sum_{j=1}^{H-h} (c gamma)^j prod_{k=1}^j rho^{h+k})^2, c = 1 or 2. (...)

    rho (..., H) holds rho^1 to rho^H; rho^1 is never used.
    """
    return np.asarray((_discounts(rho, gamma) * amplification(rho, gamma, version) ** 2).sum(-1))


def determinant_term(constants: Constants, episodes: int, version: Version = "corrected") -> float:
    """D_T, the bound on sum_t log(1 + |phi_t|^2_{chi_bar^-1}): d log(1 + T L^2 / (d lambda)).

    The printed one is d log(lambda + T L^2 / d), which is too small if lambda < 1 (E6).
    """
    c = constants
    growth = episodes * c.feature_norm**2 / c.dim
    inside = c.ridge + growth if version == "printed" else 1 + growth / c.ridge
    return float(max(c.dim * np.log(inside), 0.0))


def beta(constants: Constants, episodes: int, delta: float, version: Version = "corrected") -> float:
    """beta_T = sigma sqrt(2 log(H / delta) + d log(1 + T L^2 / (d lambda))) + sqrt(lambda) L_omega.

    The printed one has log(1 / delta) (E8) and T L^2 / lambda, without d (valid, but looser: E7).
    """
    c = constants
    printed = version == "printed"
    growth = episodes * c.feature_norm**2 / c.ridge
    return float(
        noise_radius(
            c.dim * np.log1p(growth if printed else growth / c.dim),
            sigma=c.sigma,
            ridge=c.ridge,
            weight_norm=c.weight_norm,
            horizon=1 if printed else c.horizon,
            delta=delta,
        )
    )


def theorem_2(
    constants: Constants, rho: Array, episodes: int, delta: float, version: Version = "corrected"
) -> np.float64 | Array:
    """LinUCB's regret after T episodes is below this with probability 1 - delta. rho (..., H) -> (...)

    Printed: 2 beta_T sqrt(2 rho_bar T H D_T). Corrected: the same, with max(2 theta^h, 1) for 2 theta^h.
    """
    radius = beta(constants, episodes, delta, version)
    determinant = determinant_term(constants, episodes, version)
    rho = np.asarray(rho, np.float64)
    if version == "printed":
        squares = 4 * radius**2 * rho_bar(rho, constants.gamma, version)
    else:
        widest = np.maximum(2 * radius * amplification(rho, constants.gamma, version), 1.0)
        squares = (_discounts(rho, constants.gamma) * widest**2).sum(-1)
    return np.sqrt(2 * squares * episodes * constants.horizon * determinant)


def theorem_1(constants: Constants, rho: Array, episodes: int, version: Version = "corrected") -> np.float64 | Array:
    """LinPSRL's Bayesian regret, O(d sqrt(rho_bar H T) log T): Theorem 2's bound at delta = 1 / T, plus 1.

    Proven for H = 1. For H > 1 a step of the proof does not hold (E21), and this is only a reference curve.
    """
    return 1 + theorem_2(constants, rho, episodes, 1 / episodes, version)


def _discounts(rho: Array, gamma: float) -> Array:
    """gamma^{2(h-1)}. (H,)"""
    return np.asarray(float(gamma) ** (2 * np.arange(rho.shape[-1])))
