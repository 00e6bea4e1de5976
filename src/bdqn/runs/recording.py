"""A recorded episode: what the environment showed, what the agent believed and what it did. Plain arrays only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Picture = NDArray[np.uint8]  # (height, width, 3)


@dataclass(frozen=True, eq=False)
class Recording:
    """A recorded episode, or several: one row per decision."""

    title: str
    facts: dict[str, str]  # shown below the player, by name
    actions: tuple[str, ...]  # their names
    pictures: list[Picture]  # one per decision; empty if only observations can be shown
    observations: Array  # (decisions, numbers), between -1 and 1; no columns if there are pictures
    mean: Array  # (decisions, actions), in units of reward, clipped if the learner clips rewards
    draw: Array  # (decisions, actions): the Q-function that the agent followed
    std: Array | None  # (decisions, actions): epistemic; None if the agent has no uncertainty
    predictive_std: Array | None
    best: Array | None  # (decisions, actions): probability of being the best action
    action: NDArray[np.int64]
    redrawn: NDArray[np.bool_]  # the agent made a new draw before this decision
    reward: Array
    ended: NDArray[np.bool_]  # the episode ended with this decision
    outcome: Array  # discounted return that followed, of rewards as Q counts them; NaN if truncated
    allowed: NDArray[np.bool_] | None = None  # (decisions, actions): action masks; None if there are none
    centre: Array | None = None  # (decisions, actions): mean of the draws that the agent picks from; None: ``mean``
    kind: tuple[str, ...] = ()  # of the draw that was followed, decision by decision; empty where there is one kind

    @property
    def draws(self) -> bool:
        """Whether the agent followed anything but the mean."""
        return not np.array_equal(self.draw, self.mean)

    @property
    def greedy(self) -> NDArray[np.int64]:
        """The best action under the mean, of those allowed, at every decision."""
        allowed = True if self.allowed is None else self.allowed
        return np.asarray(np.where(allowed, self.mean, -np.inf).argmax(1))

    @property
    def calibration(self) -> dict[float, float] | None:
        """Share of outcomes within 1 and 2 predictive standard deviations of Q; None if no outcome is known."""
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
