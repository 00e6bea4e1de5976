"""What heads say about their belief: where they have a posterior, Q at some observations under it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

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

    @cached_property
    def mean(self) -> Array:
        """(n, actions)"""
        return np.asarray((self.posterior.mean @ self.x.T + self.offsets).T)

    @cached_property
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


class NoBelief:
    """What a head without a posterior says of its belief; one with a posterior overrides it."""

    posterior: Posterior | None = None
    fitted = True  # whether its Q-values mean anything yet
    votes = False  # whether the draws that it picks from vote, where it does not explore

    def q_of_draws(self, phi: Tensor) -> Tensor | None:
        """Q under each index that ``draw`` picks from (draws, batch, actions); None: it makes new ones each time."""
        return None

    def belief_at(self, phi: Tensor) -> QBelief | None:
        """What it believes about Q; None: it keeps no posterior."""
        return None

    def belief_state(self) -> dict[str, Any]:
        """What it believes beyond its weights and buffers."""
        return {"posterior": {}, "fitted": self.fitted}

    def load_belief_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``belief_state`` gave."""
