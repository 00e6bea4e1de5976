"""Whether an action is safe: does its return reach a threshold, with a given probability, under some belief?

Beliefs about returns are Gaussian with a posterior's spread, or calibrated on returns. Only the latter are about what
happens: the paper's variance is that of the mean return.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from bdqn.config.settings import SettingError, nearest
from bdqn.qlearning.calibration import Array, Calibration, NotCalibrated
from bdqn.qlearning.choices import Policy
from bdqn.qlearning.q_posterior import NO_CALIBRATION, QPosterior
from bdqn.qlearning.rules import Actions, upper_confidence
from bdqn.qlearning.safety import SAFETY_CRITERIA
from bdqn.qlearning.view import QView

Spread = Literal["calibrated", "epistemic", "predictive"]


class Distances(Protocol):
    """How far a return lies from Q, in the spread of an action."""

    def lower(self, probability: float) -> float:
        """The distance that it reaches with this probability."""

    def tail_mean(self, share: float) -> float:
        """The mean of the worst ``share``."""

    def probability_above(self, distance: Array) -> Array:
        """How probably it reaches each distance."""


class Gaussian:
    """Distances of a Gaussian."""

    def lower(self, probability: float) -> float:
        return float(-ndtri(probability))

    def tail_mean(self, share: float) -> float:
        return float(-np.exp(-(ndtri(share) ** 2) / 2) / np.sqrt(2 * np.pi) / share)

    def probability_above(self, distance: Array) -> Array:
        return np.asarray(ndtr(-distance))


@dataclass(frozen=True)
class ReturnBelief:
    """The distribution of each action's return: mean + scale * a distance."""

    mean: Array
    scale: Array
    distances: Distances
    spread: Spread  # what it rests on

    def lower(self, probability: float) -> Array:
        """The return that each action reaches with this probability."""
        return self.mean + self.scale * self.distances.lower(probability)

    def tail_mean(self, share: float) -> Array:
        """The mean of the worst ``share`` of each action's returns."""
        return self.mean + self.scale * self.distances.tail_mean(share)

    def probability_above(self, threshold: float) -> Array:
        """How probably the return of each action reaches a threshold."""
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = (threshold - self.mean) / self.scale
        certain = np.where(self.mean >= threshold, -np.inf, np.inf)
        return self.distances.probability_above(np.where(self.scale > 0, distance, certain))


@dataclass(frozen=True)
class Safety:
    """How safe every action is, at one observation (actions,) or a batch of them (batch, actions)."""

    returns: ReturnBelief
    degree: Array  # by the criterion: a bound or a tail mean, in the environment's rewards, or a probability
    safe: NDArray[np.bool_]


def judge(q: QPosterior, criterion: str, threshold: float, level: float = 0.9, spread: Spread | None = None) -> Safety:
    """Which actions are safe by a criterion, under the calibrated belief if there is one."""
    _check(criterion, level)
    if not np.isfinite(threshold):
        raise SettingError(f"threshold must be a finite number, in the environment's rewards, not {threshold!r}.")
    returns = _belief(q, spread or ("epistemic" if q.calibration is None else "calibrated"))
    if criterion == "probability":
        probability = returns.probability_above(threshold)
        return Safety(returns, probability, probability >= level)
    bound = returns.lower(level) if criterion == "lcb" else returns.tail_mean(1 - level)
    return Safety(returns, bound, bound >= threshold)


def safe_policy(criterion: str, level: float, calibration: Calibration | None) -> Policy:
    """Take the action whose return has the best lower bound, or the best tail mean.

    Where Q is so low that even bad returns lie above it, spread would count in favour of an action: it then counts for
    nothing, since calibration has not seen what the other actions return.
    """
    _check(criterion, level)
    if criterion == "probability":
        raise SettingError("probability needs a threshold, which an evaluation does not have: act by lcb or cvar.")
    distances: Distances = Gaussian() if calibration is None else calibration
    caution = min(0.0, distances.lower(level) if criterion == "lcb" else distances.tail_mean(1 - level))

    def safest_action(view: QView, step: int, rng: np.random.Generator) -> Actions:
        std = view.std if view.belief is None or calibration is None else view.belief.predictive_std
        return upper_confidence(view.mean, std, caution, view.allowed)

    return safest_action


def _belief(q: QPosterior, spread: Spread) -> ReturnBelief:
    if spread == "calibrated":
        if q.calibration is None:
            raise NotCalibrated(NO_CALIBRATION)
        return ReturnBelief(q.mean, q.predictive_std, q.calibration, spread)
    known = {"epistemic": q.std, "predictive": q.predictive_std}
    if spread not in known:
        raise SettingError(f"spread must be calibrated, epistemic or predictive, not {spread!r}.")
    return ReturnBelief(q.mean, known[spread], Gaussian(), spread)


def _check(criterion: str, level: float) -> None:
    if criterion not in SAFETY_CRITERIA:
        raise SettingError(f"Unknown criterion {criterion!r}; {nearest(criterion, SAFETY_CRITERIA)}")
    if not 0 < level < 1:
        raise SettingError(f"level must lie between 0 and 1, not {level!r}.")
