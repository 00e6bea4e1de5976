"""What `bdqn.attach` returns: the questions that a learner answers, about somebody else's network."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdqn.attached.calibration import TargetCalibration
from bdqn.attached.last_layer import LastLayerNetwork
from bdqn.bayes.posterior import Posterior
from bdqn.config.seeding import generator
from bdqn.networks.heads import QBelief
from bdqn.qlearning import rules
from bdqn.qlearning.believer import Believer
from bdqn.qlearning.questions import masks_of


class AttachedPosterior(Believer):
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
        self.seed = seed
        self._predict_rng = generator(seed, "predict")

    def __repr__(self) -> str:
        dim, fitted = self.posterior.dim, int(self.transitions_per_action.sum())
        return f"<AttachedPosterior: {self._network.num_actions} actions, {dim} features, {fitted:,} transitions>"

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
