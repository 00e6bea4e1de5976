"""Pseudo-counts: how often an observation was seen, as the density model that has seen them all would have it.

Bellemare et al., "Unifying count-based exploration and intrinsic motivation" (2016). A model gives an observation the
probability rho, learns it, and then gives it rho'. If these were shares of counts, N / n and (N + 1) / (n + 1), then
N = rho (1 - rho') / (rho' - rho).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bdqn.config.observations import ObservationSpec

LogProbs = tuple[float, float]


class DensityModel(Protocol):
    """Learns a distribution of observations, one by one."""

    @property
    def size(self) -> int:
        """How many entries it keeps: observations told apart, nodes of trees."""

    def prob_then_update(self, obs: NDArray[Any]) -> LogProbs:
        """The logarithms of rho and rho', the probabilities of an observation before and after it is learned.

        Logarithms, because the probability of a whole image is smaller than any number.
        """

    def state(self) -> dict[str, NDArray[Any]]:
        """All that it has learned."""

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what ``state`` gave; what cannot be that is a ValueError."""


MakeDensityModel = Callable[[ObservationSpec, np.random.Generator], DensityModel]


def pseudo_count(log_before: float, log_after: float) -> float:
    """N = rho (1 - rho') / (rho' - rho), from logarithms.

    What had no probability was never seen: 0. What did not become more probable can teach nothing more: infinity.
    """
    if log_before == -math.inf:
        return 0.0
    gain = log_after - log_before
    if gain <= 0:
        return math.inf
    return -math.expm1(log_after) / math.expm1(gain) if gain < 700 else 0.0  # beyond that, exp is infinite


def exploration_bonus(count: float) -> float:
    """What an observation seen so often is worth: (N + 0.01)^(-1/2), which is 10 for one that is new."""
    return 1 / math.sqrt(count + 0.01)
