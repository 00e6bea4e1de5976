"""How often intervals of a posterior hold targets that it was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Posterior
from bdqn.bayes.predictions import of_action, predictive_std

LEVELS = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class TargetCalibration:
    """Coverage of central intervals for one-step targets, r + gamma V(s'); those of returns are another matter."""

    coverage: dict[float, float]  # level: share of held-out targets within
    rows: int  # held-out transitions

    def __str__(self) -> str:
        held = ", ".join(f"{level:.0%} intervals hold {share:.0%}" for level, share in self.coverage.items())
        return f"{held} of {self.rows:,} held-out targets: {self.verdict}"

    @property
    def verdict(self) -> str:
        """In a word, by the 90 % intervals."""
        share = self.coverage[0.9]
        return "overconfident" if share < 0.85 else "underconfident" if share > 0.95 else "calibrated"


def calibrated_on(posterior: Posterior, x: Array, action: NDArray[np.int64], target: Array) -> TargetCalibration:
    """Try the intervals on rows that were held out."""
    distance = np.empty(len(x))
    for one in np.unique(action):
        taken = action == one
        belief = of_action(posterior, int(one))
        distance[taken] = np.abs(target[taken] - x[taken] @ belief.mean) / predictive_std(belief, x[taken])
    widths = {level: float(ndtri((1 + level) / 2)) for level in LEVELS}
    return TargetCalibration({level: float((distance <= width).mean()) for level, width in widths.items()}, len(x))
