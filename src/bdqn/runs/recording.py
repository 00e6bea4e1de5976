"""A recorded episode: what the environment showed, what the agent believed and what it did. Plain arrays only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Picture = NDArray[np.uint8]  # (height, width, 3)


@dataclass(frozen=True, eq=False)
class Recording:
    """What was seen, believed and done, decision by decision; one row each."""

    title: str
    facts: dict[str, str]  # for the reader, by name
    actions: tuple[str, ...]  # their names
    pictures: list[Picture]  # of each decision; none where only the observations can be shown
    observations: Array  # (decisions, numbers), between -1 and 1; without columns where there are pictures
    mean: Array  # (decisions, actions), in the environment's rewards, clipped where the learner clips them
    draw: Array  # (decisions, actions): the Q-function that it acted by
    std: Array | None  # (decisions, actions): epistemic; None: this agent does not say how sure it is
    predictive_std: Array | None
    best: Array | None  # (decisions, actions): probability of being the best
    action: NDArray[np.int64]
    redrawn: NDArray[np.bool_]  # a new draw was made before this decision
    reward: Array
    ended: NDArray[np.bool_]  # the episode ended with this decision
    outcome: Array  # discounted return that followed, of rewards as Q counts them; NaN where it was cut short
    centre: Array | None = None  # (decisions, actions): of the few draws that it picks from; None: the mean

    @property
    def draws(self) -> bool:
        """Whether it acted by anything but the mean."""
        return not np.array_equal(self.draw, self.mean)

    @property
    def calibration(self) -> dict[float, float] | None:
        """Share of outcomes within so many predictive standard deviations of Q; None if none is known."""
        if self.predictive_std is None:
            return None
        rows = np.arange(len(self.action))
        belief = self.mean if self.centre is None else self.centre
        centre, spread = belief[rows, self.action], self.predictive_std[rows, self.action]
        known = np.isfinite(self.outcome)
        if not known.any():
            return None
        distance = np.abs(self.outcome - centre)[known] / spread[known]
        return {width: float((distance <= width).mean()) for width in (1.0, 2.0)}
