"""What an agent believed along its episodes, and the discounted returns that followed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bdqn.envs.interaction import Step
from bdqn.learner import Learner
from bdqn.qlearning.calibration import Outcomes
from bdqn.qlearning.rules import Actions
from bdqn.qlearning.view import QView
from bdqn.replay.returns import discounted_returns

Array = NDArray[np.float64]

HIDDEN = 0.01  # the share of a later value that a return may leave out and still count


def reward_limit(learner: Learner) -> float:
    """The largest reward that counts for Q, in the environment's rewards."""
    return learner.configuration.training.reward_clip * learner.reward_unit or np.inf


def returns_from(reward: Array, over: NDArray[np.bool_], terminal: NDArray[np.bool_], gamma: float) -> Array:
    """Discounted return from each decision on; NaN where too much of it was not seen.

    Where an episode was cut after k more decisions, gamma^k of the value there is missing. Up to HIDDEN of it we do
    without, so a decision early in a long episode has a return although a time limit cut that episode.
    """
    last = over | terminal
    last[-1:] = True
    ends = np.flatnonzero(last)
    places = np.arange(len(reward))
    end = ends[np.searchsorted(ends, places)]
    hidden = np.where(terminal[end], 0.0, gamma ** (end - places + 1.0))
    return np.where(hidden <= HIDDEN, discounted_returns(reward, last, gamma), np.nan)


def known_outcomes(over: NDArray[np.bool_], beliefs: Array, outcome: Array) -> Outcomes:
    """Of consecutive decisions, and of the episodes that were ``over`` with some of them, what is known.

    ``beliefs`` are mean, std and predictive std of Q (3, decisions).
    """
    episode = np.append(0, over.cumsum()[:-1])
    known = np.isfinite(outcome)
    mean, std, predictive_std = beliefs[:, known]
    return Outcomes(int(episode[-1]) + 1, episode[known], mean, std, predictive_std, outcome[known])


class OutcomeLog:
    """Collects what is believed of each action that is taken in one environment."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._beliefs: list[tuple[float, float, float]] = []
        self._rewards: list[float] = []
        self._ends: list[tuple[bool, bool]] = []
        self.spreads: list[float] = []  # epistemic, the mean over actions

    def add(self, view: QView, action: Actions, step: Step) -> None:
        """One decision."""
        if step.restarts and self._ends:  # this decision was taken in a new episode
            self._ends[-1] = (True, self._ends[-1][1])
        belief, chosen = view.belief, (0, int(action[0]))
        assert belief is not None, "only a posterior has a spread"
        std = belief.std
        self.spreads.append(float(std.mean()))
        self._beliefs.append((belief.mean[chosen], std[chosen], belief.predictive_std[chosen]))
        self._rewards.append(float(step.reward[0]))
        self._ends.append((bool(step.ended[0]), bool(step.terminal[0])))

    def outcomes(self) -> Outcomes:
        """All that is known, in the environment's rewards."""
        unit, limit = self._learner.reward_unit, reward_limit(self._learner)
        over, terminal = np.array(self._ends).T
        reward = np.array(self._rewards).clip(-limit, limit)
        outcome = returns_from(reward, over, terminal, self._learner.configuration.training.gamma)
        return known_outcomes(over, unit * np.array(self._beliefs).T, outcome)
