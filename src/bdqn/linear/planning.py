"""One backward pass for all linear agents.

From the last step to the first, it regresses rewards plus the next step's value on features and asks a *judge* for two
Q-functions: one to act on, and one that the previous step learns from. Agents differ in their judge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bdqn.bayes.posterior import Posterior, Prior, fit
from bdqn.linear.confidence import Confidence, ConfidenceSet
from bdqn.linear.draws import Draws
from bdqn.linear.mdps import Array, Known
from bdqn.linear.statistics import Memory


class Guess(NamedTuple):
    """A candidate Q-function: phi . weights + bonus * |phi|_{chi_bar^-1}."""

    weights: Array  # (R, d)
    bonus: Array | None = None  # (R,)
    within_unit: bool = False  # clip its values to [0, 1], the range of V*


@dataclass(frozen=True)
class Belief:
    """The regression of one step, on all states and actions. ``theta`` is its confidence radius, or zero."""

    posterior: Posterior
    features: Array  # (R, S, A, d)
    theta: Array  # (R,)
    clip: bool = True  # clip bounds on values to [0, 1]

    @cached_property
    def width(self) -> Array:
        """|phi|_{chi_bar^-1}: the posterior's standard deviation in units of the noise's. (R, S, A)"""
        std = self.posterior.std(self._rows) / np.sqrt(self.posterior.noise_var)[:, None]
        return std.reshape(self.features.shape[:-1])

    def q(self, guess: Guess) -> Array:
        """Values of a guess. (R, S, A)"""
        values = (self._rows @ guess.weights[..., None]).reshape(self.features.shape[:-1])
        return values if guess.bonus is None else values + guess.bonus[:, None, None] * self.width

    def value(self, guess: Guess) -> Array:
        """Value of the best action under a guess. (R, S)"""
        best: Array = self.q(guess).max(-1)
        return np.clip(best, 0.0, 1.0) if guess.within_unit else best

    def optimistic(self) -> Guess:
        return Guess(self.posterior.mean, self.theta, self.clip)

    def pessimistic(self) -> Guess:
        return Guess(self.posterior.mean, -self.theta, self.clip)

    def expected(self) -> Guess:
        return Guess(self.posterior.mean)

    @property
    def _rows(self) -> Array:
        return self.features.reshape(len(self.features), -1, self.features.shape[-1])  # (R, S A, d)


Judge = Callable[[Belief, Draws], tuple[Guess, Guess]]  # the Q-function to act on, and the one to teach


class Step(NamedTuple):
    """One step of a plan."""

    belief: Belief
    act: Guess
    set: ConfidenceSet | None


def look_back(
    memory: Memory, known: Known, prior: Prior, judge: Judge, confidence: Confidence | None, draws: Draws
) -> list[Step]:
    """Fit the regression of every step, from the last to the first, and recompute all past targets."""
    steps: list[Step] = []
    ahead: Array | None = None  # gamma V_{h+1}
    bias: Array | float = 0.0
    for h in reversed(range(known.horizon)):
        posterior = fit(memory.moments(h, ahead), prior)
        theta = (
            np.zeros(len(posterior.mean)) if confidence is None else confidence.theta(posterior, memory.episodes, bias)
        )
        belief = Belief(posterior, memory.features(h), theta, clip=confidence is None or confidence.clip)
        act, teach = judge(belief, draws)
        ahead = known.gamma * belief.value(teach)
        confidence_set = None
        if confidence is not None:
            lower, upper = belief.value(belief.pessimistic()), belief.value(belief.optimistic())
            confidence_set = ConfidenceSet(posterior.mean, posterior.factor, theta, belief.width, lower, upper)
            if h > 0:
                bias = confidence.bias(h, confidence_set, memory.visits(h))
        steps.append(Step(belief, act, confidence_set))
    return steps[::-1]
