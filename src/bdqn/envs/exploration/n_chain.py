"""The chain of Osband et al. 2016, "Deep Exploration via Bootstrapped DQN"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from bdqn.envs.exploration.tabular import Outcome, State, Tabular


class NChain(Tabular):
    """Start beside the left end, which pays 0.001 a step; the right end pays 1 a step, and is size - 2 steps away.

    Seen as a thermometer: the state's number of ones, then zeros. An episode has size + 9 steps, as in the paper.
    """

    def __init__(
        self, size: int = 50, near_reward: float = 0.001, limit: int | None = None, mapping_seed: int = -1
    ) -> None:
        super().__init__((1,), 2, size + 9 if limit is None else limit, mapping_seed)
        self.size, self.near_reward = size, near_reward
        self.observation_space = gym.spaces.Box(0.0, 1.0, (size,), np.float32)

    def outcomes(self, state: State, move: int) -> Sequence[Outcome]:
        """Go left (0) or right (1); what a state pays is paid for acting there."""
        reward = {0: self.near_reward, self.size - 1: 1.0}.get(state[0], 0.0)
        return [Outcome((min(max(state[0] + (1 if move else -1), 0), self.size - 1),), reward)]

    def observe(self, state: State) -> Any:
        """Ones up to where it is."""
        return (np.arange(self.size) <= state[0]).astype(np.float32)
