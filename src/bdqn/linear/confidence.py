"""Confidence sets C_t^h = {omega : |omega_hat^h - omega|_{chi_bar^h} <= theta^h} around ridge regressions (Lemma 1).

theta^h = beta^h + bias^h. The first term covers noise and ridge, the second covers targets that use pessimistic values
instead of V*. Three radii differ in the bias that step h inherits from step h + 1:

- theory: 2 gamma rho^{h+1} theta^{h+1}, the lemma with a corrected proof. V* and the pessimistic value differ by up to
  twice the radius, because each is up to one radius away from the set's centre.
- paper: rho^{h+1} theta^{h+1}, with gamma, the lemma as printed. It loses coverage, and is here to show that.
- data: gamma |V_up - V_low| over the states visited at step h + 1, also proven. It needs no rho, hence no oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bdqn.bayes.posterior import Posterior
from bdqn.linear.mdps import Array, Known

RadiusKind = Literal["theory", "paper", "data"]


@dataclass(frozen=True)
class ConfidenceSet:
    """The sets of all replicas at one step, and the bounds on values that they imply."""

    centre: Array  # (R, d) omega_hat
    factor: Array  # (R, d, d) Cholesky factor of chi_bar = chi + lambda I
    theta: Array  # (R,)
    width: Array  # (R, S, A) |phi|_{chi_bar^-1}
    lower: Array  # (R, S) V_low, pessimistic
    upper: Array  # (R, S) V_up, optimistic

    def distance(self, omega: Array) -> Array:
        """|omega_hat - omega|_{chi_bar}, for omega (R, d). (R,)"""
        difference = np.swapaxes(self.factor, -1, -2) @ (omega - self.centre)[..., None]
        return np.asarray(np.linalg.norm(difference[..., 0], axis=-1))

    def contains(self, omega: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        return np.asarray(self.distance(omega) <= self.theta)


def log_determinant(posterior: Posterior) -> Array:
    """log det chi_bar, from its factor. (R,)"""
    return np.asarray(2 * np.log(np.diagonal(posterior.factor, axis1=-2, axis2=-1)).sum(-1))


def noise_radius(
    log_det_ratio: Array | float, *, sigma: float, ridge: float, weight_norm: float, horizon: int, delta: float
) -> Array:
    """beta = sigma sqrt(2 log(H / delta) + log det(chi_bar) - log det(lambda I)) + sqrt(lambda) L_omega.

    Abbasi-Yadkori et al. (2011), Theorem 2, with delta / H at each of H steps.
    """
    return np.asarray(sigma * np.sqrt(2 * np.log(horizon / delta) + log_det_ratio) + np.sqrt(ridge) * weight_norm)


def rho(width_of_optimal: Array, visits: Array) -> Array:
    """rho = sqrt(sum_i |phi(x_i, pi*(x_i))|^2_{chi_bar^-1}), with the sum over episodes computed by state. (R,)"""
    return np.asarray(np.sqrt((visits * width_of_optimal**2).sum(-1)))


class Confidence:
    """Radii theta^h of one agent, from the last step to the first. Stores the largest rho so far."""

    def __init__(
        self,
        known: Known,
        *,
        ridge: float,
        kind: RadiusKind = "theory",
        delta: float = 0.1,
        scale: float = 1.0,
        rho_source: str = "oracle",
        clip: bool = True,
    ) -> None:
        self._known, self._ridge, self._kind, self._delta, self._scale = known, ridge, kind, delta, scale
        self._source = rho_source
        self.clip = clip
        self.largest_rho = np.zeros(known.features.shape[:2])  # (R, H)

    def theta(self, posterior: Posterior, episodes: int, bias: Array | float) -> Array:
        """theta^h = scale (beta^h + bias^h). (R,)"""
        known = self._known
        if self._kind == "paper":
            determinant: Array | float = known.dim * np.log1p(episodes * known.feature_norm**2 / self._ridge)
        else:
            determinant = log_determinant(posterior) - known.dim * np.log(self._ridge)
        beta = noise_radius(
            determinant,
            sigma=known.sigma,
            ridge=self._ridge,
            weight_norm=known.weight_norm,
            horizon=known.horizon,
            delta=self._delta,
        )
        return self._scale * np.broadcast_to(beta + bias, posterior.mean.shape[:-1])

    def bias(self, h: int, above: ConfidenceSet, visits: Array) -> Array:
        """The bias that step h - 1 inherits from the set of step h, whose states were visited ``visits`` times. (R,)"""
        if self._kind == "data":
            return np.asarray(self._known.gamma * np.sqrt((visits * (above.upper - above.lower) ** 2).sum(-1)))
        self.largest_rho[:, h] = np.maximum(self.largest_rho[:, h], self._rho(h, above.width, visits))
        factor = 2.0 if self._kind == "theory" else 1.0
        return np.asarray(factor * self._known.gamma * self.largest_rho[:, h] * above.theta)

    def _rho(self, h: int, width: Array, visits: Array) -> Array | float:
        if self._source == "max-action":
            return rho(width.max(-1), visits)
        if self._source != "oracle":
            return float(self._source)
        if self._known.optimal_actions is None:
            raise ValueError("rho = oracle needs the optimal actions: choose max-action, a number, or the radius data.")
        optimal = np.take_along_axis(width, self._known.optimal_actions[:, h, :, None], axis=-1)[..., 0]
        return rho(optimal, visits)
