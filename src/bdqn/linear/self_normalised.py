"""The process behind the confidence sets: noise summed along features, and its exponential supermartingales.

S_t = sum_i phi_i nu_i / sigma and chi_t = sum_i phi_i phi_i', at every step h. For any alpha, M_t(alpha) =
exp(alpha . S_t - |alpha|^2_{chi_t} / 2) has expectation at most 1 at every stopping time (Lemma 3, read as E14). So
does its mean over alpha ~ N(0, I / lambda), which has a closed form and exceeds 1 / delta with probability at most
delta (Lemma 4, read as E11 and E13). It needs V*, so it serves to check the lemmas, not to act.
"""

from __future__ import annotations

import numpy as np

from bdqn.linear.mdps import Array, Replicas
from bdqn.linear.statistics import Episodes


def target_noise(replicas: Replicas, played: Episodes) -> Array:
    """nu_h = r_h + gamma V*_{h+1}(x_{h+1}) - Q*_h(x_h, a_h). (R, H)"""
    rows, steps = np.ogrid[: len(replicas), : played.states.shape[1]]
    noise = played.rewards - replicas.q_star[rows, steps, played.states, played.actions]
    noise[:, :-1] += replicas.gamma * replicas.q_star.max(-1)[rows, steps[:, 1:], played.states[:, 1:]]
    return np.asarray(noise)


class SelfNormalised:
    """S_t and chi_t of every replica and step, updated in place."""

    def __init__(self, replicas: Replicas, sigma: float | None = None) -> None:
        """``sigma`` is the problem's, unless another one is given."""
        self._replicas, self._sigma = replicas, replicas.known.sigma if sigma is None else sigma
        count, horizon, dim = replicas.omega_star.shape
        self._sums = np.zeros((count, horizon, dim))
        self._gram = np.zeros((count, horizon, dim, dim))
        self._rows, self._steps = np.ogrid[:count, :horizon]

    def add(self, played: Episodes) -> None:
        """Add one episode of every replica."""
        phi = self._replicas.features[self._rows, self._steps, played.states, played.actions]
        self._sums += phi * (target_noise(self._replicas, played) / self._sigma)[..., None]
        self._gram += phi[..., :, None] * phi[..., None, :]

    def log_exponential(self, alpha: Array) -> Array:
        """log M_t(alpha). (R, H)"""
        return np.asarray(self._sums @ alpha - (self._gram @ alpha) @ alpha / 2)

    def log_mixture(self, ridge: float) -> Array:
        """log of the mean of M_t(alpha) over alpha ~ N(0, I / ridge). (R, H)

        sqrt(det(ridge I) / det(chi_bar)) exp(|S|^2_{chi_bar^-1} / 2) with chi_bar = chi + ridge I.
        """
        dim = self._replicas.known.dim
        chi_bar = self._gram + ridge * np.eye(dim)
        squares = (self._sums * np.linalg.solve(chi_bar, self._sums[..., None])[..., 0]).sum(-1)
        return np.asarray((dim * np.log(ridge) - np.linalg.slogdet(chi_bar)[1] + squares) / 2)
