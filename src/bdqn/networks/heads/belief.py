"""What a head with a posterior believes about Q at some observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Posterior
from bdqn.bayes.predictions import sample_values


@dataclass(frozen=True)
class QBelief:
    """A posterior at n observations, and Q under it."""

    posterior: Posterior
    x: Array  # (n, d) rows of the regression
    offsets: Array | float  # what Q holds beside x . w (actions, n)
    draws: Array | None  # Q under the draws that it picks from (draws, n, actions); None: it makes new ones each time

    @property
    def mean(self) -> Array:
        """(n, actions)"""
        return np.asarray((self.posterior.mean @ self.x.T + self.offsets).T)

    @property
    def std(self) -> Array:
        """Epistemic: of the draws that it picks from, or of the posterior that it draws from. (n, actions)"""
        return self.posterior.std(self.x).T if self.draws is None else self.draws.std(0)

    @property
    def predictive_std(self) -> Array:
        """Of a single regression target: the noise included. (n, actions)"""
        return np.asarray(np.sqrt(self.std**2 + self.posterior.noise_var))

    def sample(self, rng: np.random.Generator, count: int) -> Array:
        """``count`` draws of Q; all draws that it picks from, where those are fixed. (draws, n, actions)"""
        if self.draws is not None:
            return self.draws
        return np.swapaxes(sample_values(self.posterior, self.x, rng, count) + self.offsets, -1, -2)
