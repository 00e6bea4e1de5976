"""RiverSwim (Strehl and Littman 2008): a small reward downstream, a large one far upstream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from bdqn.envs.exploration.tabular import Outcome, State, Tabular


class RiverSwim(Tabular):
    """Swimming left always succeeds; swimming right succeeds at times, and the current may win."""

    def __init__(self, size: int = 6, near_reward: float = 0.005, limit: int = 50, mapping_seed: int = -1) -> None:
        """The left end pays ``near_reward`` for swimming left there, the right end 1 for swimming right."""
        super().__init__((0,), 2, limit, mapping_seed)
        self.size, self.near_reward = size, near_reward
        self.observation_space = gym.spaces.Discrete(size)

    def outcomes(self, state: State, move: int) -> Sequence[Outcome]:
        """Left (0) or right (1)."""
        at, last = state[0], self.size - 1
        if move == 0:
            return [Outcome((max(at - 1, 0),), self.near_reward if at == 0 else 0.0)]
        if at == 0:
            return [Outcome((0,), probability=0.4), Outcome((1,), probability=0.6)]
        if at == last:
            return [Outcome((at - 1,), 1.0, probability=0.4), Outcome((at,), 1.0, probability=0.6)]
        return [
            Outcome((at - 1,), probability=0.05),
            Outcome((at,), probability=0.6),
            Outcome((at + 1,), probability=0.35),
        ]

    def observe(self, state: State) -> Any:
        """The number of the place."""
        return np.int64(state[0])
