"""What anybody with a belief about Q can be asked: a learner, and a posterior attached to somebody else's network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdqn.bayes.numerics import Array
from bdqn.config.seeding import generator
from bdqn.networks.heads import QBelief
from bdqn.qlearning import action_probabilities, rules
from bdqn.qlearning.calibration import Calibration
from bdqn.qlearning.judgement import Safety, Spread, judge
from bdqn.qlearning.q_posterior import QPosterior
from bdqn.qlearning.questions import masks_of
from bdqn.qlearning.safety import degree_of_safety


class Believer(ABC):
    """Answers questions about the value of actions, for one observation or a batch."""

    seed: int

    @abstractmethod
    def _belief_at(self, observation: ArrayLike) -> tuple[QBelief, bool]:
        """What is believed at these observations, in its own unit, and whether it was a single one."""

    @property
    def reward_unit(self) -> float:
        """What its own Q-values must be multiplied by to be in the environment's rewards."""
        return 1.0

    def _calibration_by_returns(self) -> Calibration | None:
        """How far returns lie from Q; None: not known."""
        return None

    def _as_environments(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Actions as the environment takes them."""
        return actions

    def q_posterior(self, observation: ArrayLike) -> QPosterior:
        """How good every action is believed to be, and how sure that belief is.

        Where a refit prepares the draws to act by (bdqn-deep's backups), the spread is that of those draws.
        """
        belief, single = self._belief_at(observation)
        parts = (self.reward_unit * part for part in (belief.mean, belief.std, belief.predictive_std))
        mean, std, predictive_std = (part[0] if single else part for part in parts)
        return QPosterior(mean, std, predictive_std, self._calibration_by_returns())

    def optimal_action_probabilities(
        self, observation: ArrayLike, samples: int = 1000, action_masks: ArrayLike | None = None
    ) -> Array:
        """How probably each action is the best one (of those that ``action_masks`` allow), by ``samples`` draws.

        Where a refit prepares the draws to act by (bdqn-deep's backups), by those instead, few as they are.
        """
        belief, single = self._belief_at(observation)
        draws = belief.sample(generator(self.seed, "probabilities"), samples)
        allowed = masks_of(action_masks, *draws.shape[1:])
        probabilities = action_probabilities.optimal_action_probabilities(draws, allowed)
        return probabilities[0] if single else probabilities

    def safe_action(
        self,
        observation: ArrayLike,
        criterion: str = "lcb",
        spread: Literal["epistemic", "predictive"] = "epistemic",
        action_masks: ArrayLike | None = None,
        **parameters: float,
    ) -> NDArray[np.int64]:
        """The safest action: by lower confidence bound, probability of reaching a threshold, or tail mean (CVaR).

        The paper's safety section prints the variance of the *mean* return, which is spread="epistemic";
        "predictive" adds the noise of the regression's targets.
        """
        degree = degree_of_safety(self.q_posterior(observation), criterion, spread, parameters)
        rows = np.atleast_2d(degree)
        best = self._as_environments(rules.greedy(rows, masks_of(action_masks, *rows.shape)))
        return best if degree.ndim == 2 else np.asarray(best[0])

    def safety(
        self,
        observation: ArrayLike,
        criterion: str = "lcb",
        *,
        threshold: float,
        level: float = 0.9,
        spread: Spread | None = None,
    ) -> Safety:
        """Of every action, how safe it is: whether its return reaches ``threshold`` with probability ``level``.

        By a lower confidence bound, the probability itself, or the mean of the worst 1 - ``level`` of returns (CVaR).
        The spread is calibrated where that is known; otherwise it is the epistemic one, which is not that of returns.
        """
        return judge(self.q_posterior(observation), criterion, threshold, level, spread)
