"""What `bdqn.attach` returns: the questions that a learner answers, about somebody else's network."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdqn.attached.calibration import TargetCalibration
from bdqn.attached.last_layer import LastLayerNetwork
from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Posterior
from bdqn.config.seeding import generator
from bdqn.networks.heads import QBelief
from bdqn.qlearning import rules
from bdqn.qlearning.action_probabilities import optimal_action_probabilities
from bdqn.qlearning.q_posterior import QPosterior
from bdqn.qlearning.questions import masks_of
from bdqn.qlearning.safety import degree_of_safety


class AttachedPosterior:
    """A belief about the values that a trained network estimates. It does not follow the network's further training."""

    def __init__(
        self,
        network: LastLayerNetwork,
        posterior: Posterior,
        *,
        gamma: float,
        calibration: TargetCalibration,
        counts: NDArray[np.int64],
        seed: int,
    ) -> None:
        self._network = network
        self.posterior = posterior  # over the last layer's weights, one regression for each action
        self.gamma = gamma
        self.calibration = calibration  # of its intervals, on transitions that were held out
        self.transitions_per_action = counts  # that were fitted
        self._seed = seed
        self._predict_rng = generator(seed, "predict")

    def __repr__(self) -> str:
        dim, fitted = self.posterior.dim, int(self.transitions_per_action.sum())
        return f"<AttachedPosterior: {self._network.num_actions} actions, {dim} features, {fitted:,} transitions>"

    def q_posterior(self, observation: ArrayLike) -> QPosterior:
        """How good every action is believed to be, and how sure that belief is."""
        belief, single = self._belief_at(observation)
        parts = (belief.mean, belief.std, belief.predictive_std)
        mean, std, predictive_std = (part[0] if single else part for part in parts)
        return QPosterior(mean, std, predictive_std)

    def optimal_action_probabilities(
        self, observation: ArrayLike, samples: int = 1000, action_masks: ArrayLike | None = None
    ) -> Array:
        """How probably each action is the best one (of those that ``action_masks`` allow), by ``samples`` draws."""
        belief, single = self._belief_at(observation)
        draws = belief.sample(generator(self._seed, "probabilities"), samples)
        probabilities = optimal_action_probabilities(draws, masks_of(action_masks, *draws.shape[1:]))
        return probabilities[0] if single else probabilities

    def safe_action(
        self,
        observation: ArrayLike,
        criterion: str = "lcb",
        spread: Literal["epistemic", "predictive"] = "epistemic",
        action_masks: ArrayLike | None = None,
        **parameters: float,
    ) -> NDArray[np.int64]:
        """The safest action: by lower confidence bound, probability of reaching a threshold, or tail mean (CVaR)."""
        degree = degree_of_safety(self.q_posterior(observation), criterion, spread, parameters)
        rows = np.atleast_2d(degree)
        best = rules.greedy(rows, masks_of(action_masks, *rows.shape))
        return best if degree.ndim == 2 else np.asarray(best[0])

    def predict(
        self,
        observation: ArrayLike,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        action_masks: ArrayLike | None = None,
    ) -> tuple[NDArray[np.int64], None]:
        """Actions: greedy under the posterior mean, or under one draw per observation (Thompson sampling)."""
        belief, single = self._belief_at(observation)
        q = belief.mean if deterministic else belief.sample(self._predict_rng, 1)[0]
        actions = rules.greedy(q, masks_of(action_masks, *q.shape))
        return (np.asarray(actions[0]) if single else actions), None

    def _belief_at(self, observation: ArrayLike) -> tuple[QBelief, bool]:
        """What is believed there, and whether it was a single observation."""
        obs, shape = np.asarray(observation), self._network.obs_shape
        single = obs.shape == shape
        if not single and obs.shape[1:] != shape:
            raise ValueError(f"Observations have shape {shape} (or a batch of them), not {obs.shape}.")
        x, _ = self._network.rows(obs[None] if single else obs)
        return QBelief(self.posterior, x, 0.0, None), single
