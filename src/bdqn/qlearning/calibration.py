"""How sure an agent may be: intervals of Q that hold the share of returns they promise (split-conformal intervals).

A posterior's spread is that of the mean of one-step targets. What a user asks about is the return that follows. So we
play episodes, and look at how far returns lay from Q, counted in predictive standard deviations: quantiles of these
distances turn Q and its spread into an interval. No distribution is assumed, and a bias of Q is corrected with it.

Decisions of one episode depend on one another; episodes do not. So each episode counts once, and its decisions share
its weight. The promise is then about a decision picked at random in a new episode (Lee, Barber and Willett 2023,
"Distribution-free inference with hierarchical data"); it is not one about every single state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]

LEVEL = 0.9  # of the intervals in verdicts
ONE_STD = 0.6827  # share of a Gaussian within one standard deviation
MOST = 100  # distances that are kept of an episode, evenly spaced
ROUNDING = 1e-9


class NotCalibrated(ValueError):
    """There is no calibration of this agent, or it rests on too few episodes for what was asked."""


def episodes_needed(level: float) -> int:
    """How many episodes an interval of this level rests on, at least."""
    tail = (1 - level) / 2
    return math.ceil((1 - tail) / tail - ROUNDING)


def gaussian_width(level: float) -> float:
    """How many standard deviations of a Gaussian an interval reaches to either side."""
    return float(ndtri((1 + level) / 2))


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What was believed of the actions taken in some episodes, and the returns that followed, where those are known."""

    episodes: int  # also those in which no return is known
    episode: NDArray[np.int64]  # (decisions,) which one each decision belongs to
    mean: Array
    std: Array
    predictive_std: Array
    outcome: Array  # discounted return

    @property
    def weight(self) -> Array:
        """Each episode's decisions share a weight of one."""
        return np.asarray(1 / np.bincount(self.episode, minlength=self.episodes)[self.episode])

    def within(self, low: Array, high: Array, level: float) -> Coverage:
        """How many returns lie between these bounds, each episode counting once."""
        held = (low <= self.outcome) & (self.outcome <= high)
        known = len(np.unique(self.episode))
        return Coverage(level, float((self.weight * held).sum() / max(known, 1)), known)

    def coverage(self, level: float = LEVEL) -> Coverage:
        """How many returns the Gaussian interval of the epistemic spread holds."""
        reach = gaussian_width(level) * self.std
        return self.within(self.mean - reach, self.mean + reach, level)

    def calibrated_coverage(self, calibration: Calibration, level: float = LEVEL) -> Coverage:
        """How many returns a calibration's intervals hold."""
        return self.within(*calibration.interval(self.mean, self.predictive_std, level), level)


@dataclass(frozen=True)
class Coverage:
    """The share of returns that intervals of a level held."""

    level: float
    held: float
    episodes: int  # in which returns are known

    @property
    def verdict(self) -> str:
        """In one word what is wrong, if that is more than chance can do."""
        # Decisions of an episode may all agree: then it is one trial, however long.
        chance = 2 * math.sqrt(self.level * (1 - self.level) / self.episodes)
        if self.held < self.level - chance:
            return "overconfident"
        if self.held > self.level + chance:
            return "underconfident"
        of = f"{self.episodes} episode{'s' * (self.episodes > 1)}"
        return (
            f"{of}, too few to tell" if self.episodes < episodes_needed(self.level) else f"right, as far as {of} tell"
        )

    def __str__(self) -> str:
        if not self.episodes:
            return "no episode ended before it was cut, so no return is known"
        return f"{100 * self.level:g} % intervals hold {100 * self.held:.0f} % of returns: {self.verdict}"


@dataclass(frozen=True, eq=False)
class Calibration:
    """How far returns lay from Q in each of some episodes, in predictive standard deviations."""

    steps: int  # decisions that the agent had learned from: it is no calibration of what learns on
    distances: tuple[Array, ...]  # one array for each episode; empty where no return is known

    def __repr__(self) -> str:
        return f"<Calibration: {self.known} of {self.episodes} episodes have known returns, {self.steps:,} decisions>"

    @classmethod
    def of(cls, outcomes: Outcomes, steps: int) -> Calibration:
        """What these outcomes say; too few of them are refused."""
        distance = (outcomes.outcome - outcomes.mean) / outcomes.predictive_std
        each = (distance[outcomes.episode == i] for i in range(outcomes.episodes))
        found = cls(steps, tuple(_thinned(own) for own in each))
        found.check()
        return found

    def check(self) -> None:
        """Refuse where it cannot give the intervals of verdicts."""
        self.interval(np.zeros(1), np.ones(1), LEVEL)

    @property
    def episodes(self) -> int:
        """How many episodes it rests on, also those in which no return is known."""
        return len(self.distances)

    @property
    def known(self) -> int:
        """In how many of them returns are known."""
        return sum(len(own) > 0 for own in self.distances)

    def quantile(self, share: float, *, at_least: bool) -> float:
        """A distance that a new decision's stays below (``at_least``: reaches) with probability ``share`` or more.

        An episode whose returns are not known, and the new one, may lie anywhere: they count against it.
        """
        distance, weight = self._sorted
        if at_least:
            distance, weight = -distance[::-1], weight[::-1]
        place = int(np.searchsorted(weight.cumsum(), share * (self.episodes + 1) - ROUNDING))
        if place == len(distance):
            raise NotCalibrated(self._too_few(share))
        return float(-distance[place] if at_least else distance[place])

    def interval(self, mean: Array, spread: Array, level: float) -> tuple[Array, Array]:
        """Bounds between which the share ``level`` of returns lies, as much of the rest above as below."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, not {level!r}.")
        share = (1 + level) / 2
        low, high = self.quantile(share, at_least=True), self.quantile(share, at_least=False)
        return mean + low * spread, mean + high * spread

    def std(self, spread: Array) -> Array:
        """Half of the interval that has the share of one standard deviation to either side."""
        low, high = self.interval(np.zeros_like(spread), spread, ONE_STD)
        return (high - low) / 2

    def lower(self, probability: float) -> float:
        """The distance that a return reaches with this probability, or more."""
        return self.quantile(probability, at_least=True)

    def tail_mean(self, share: float) -> float:
        """The mean distance of the worst ``share`` of returns."""
        self.lower(1 - share)  # refuses where too few are known
        distance, weight = self._sorted
        before = np.append(0.0, weight.cumsum()[:-1])
        inside = np.clip(share * self.known - before, 0.0, weight)
        return float((inside * distance).sum() / inside.sum())

    def probability_above(self, distance: Array) -> Array:
        """How probably a return reaches each distance, at least: what is not known counts as a miss."""
        known, weight = self._sorted
        below = np.append(0.0, weight.cumsum())[np.searchsorted(known, distance - ROUNDING)]
        return np.asarray(np.maximum(0.0, self.known - below) / (self.episodes + 1))

    @cached_property
    def _sorted(self) -> tuple[Array, Array]:
        """All distances in order, and their weights."""
        distance = np.concatenate([np.zeros(0), *self.distances])
        weight = np.concatenate([np.zeros(0), *(np.full(len(own), 1 / len(own)) for own in self.distances if len(own))])
        order = distance.argsort(kind="stable")
        return distance[order], weight[order]

    def _too_few(self, share: float) -> str:
        needed, lacking = math.ceil(share / (1 - share) - ROUNDING), self.episodes - self.known
        hidden = f", and in {lacking} others a time limit hides every return: those count against it" if lacking else ""
        return (
            f"To miss no more than {1 - share:.3g} of returns on one side, a calibration needs at least {needed} "
            f"episodes with known returns; this one has {self.known}{hidden}. Calibrate with more episodes."
        )


def _thinned(values: Array) -> Array:
    """At most MOST of them, evenly spaced."""
    if len(values) <= MOST:
        return values
    return np.asarray(values[np.linspace(0, len(values) - 1, MOST).round().astype(np.int64)])
