"""A combination lock whose wrong numbers pay a little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from bdqn.envs.exploration.tabular import Outcome, State, Tabular


class Lock(Tabular):
    """``length`` numbers in a row open it, for a reward of 1; after a wrong one every step pays a little, but no more.

    The combination is drawn from ``mapping_seed``, so there is no need to shuffle the actions.
    """

    def __init__(self, length: int = 12, actions: int = 3, distraction: float = 0.01, mapping_seed: int = 0) -> None:
        super().__init__((0, 1), actions, length, -1)
        self.length, self.distraction = length, distraction
        self.combination = np.random.default_rng(mapping_seed).integers(actions, size=length)
        self.observation_space = gym.spaces.Discrete(2 * (length + 1))

    def outcomes(self, state: State, move: int) -> Sequence[Outcome]:
        """Try the next number."""
        at, right = state
        right = int(right and move == self.combination[at])
        last = at + 1 == self.length
        reward = (1.0 if last else 0.0) if right else self.distraction
        return [Outcome((at + 1, right), reward, last)]

    def observe(self, state: State) -> Any:
        """How many numbers have been tried, and whether all were right, as one number."""
        return np.int64(2 * state[0] + state[1])
