"""Exploration bonuses: a reward of the agent's own for observations that it has seldom seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.config.observations import ObservationSpec
from bdqn.density.pseudo_counts import MakeDensityModel, exploration_bonus, pseudo_count

SMOOTHING = 0.001  # share of the latest decision in the reported mean


@dataclass(frozen=True)
class CountBonus:
    """A bonus for each observation that a decision leads to: ``scale`` (N + 0.01)^(-1/2), N its pseudo-count."""

    model: MakeDensityModel
    scale: float  # beta, in the unit that Q is learned in


class Bonuses:
    """Counts what decisions lead to, in all environments together, and says what it was worth."""

    metric_names = ("counts/bonus", "counts/pseudo_count", "counts/entries")

    def __init__(self, choice: CountBonus, spec: ObservationSpec, rng: np.random.Generator) -> None:
        self._scale, self._model = choice.scale, choice.model(spec, rng)
        self._counts: list[float] = []  # of the latest observations
        self._seen = 0  # observations
        self._mean = 0.0  # bonus of the latest thousand or so

    def of(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Count these observations (batch, *obs), one after the other; their bonuses (batch,)."""
        self._counts = [pseudo_count(*self._model.prob_then_update(one)) for one in obs]
        bonus = np.array([self._scale * exploration_bonus(count) for count in self._counts], np.float32)
        self._seen += len(obs)
        self._mean += max(SMOOTHING, len(obs) / self._seen) * (float(bonus.mean()) - self._mean)
        return bonus

    def metrics(self) -> dict[str, float]:
        """What there is to report of the latest observations. Nothing was seen more often than there was to see."""
        counts = [min(count, self._seen) for count in self._counts]
        return dict(zip(self.metric_names, (self._mean, float(np.mean(counts)), float(self._model.size)), strict=True))

    def state(self) -> dict[str, Any]:
        return {"model": self._model.state(), "seen": self._seen, "mean": self._mean}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` gave."""
        self._model.load_state(state["model"])
        self._seen, self._mean = int(state["seen"]), float(state["mean"])
