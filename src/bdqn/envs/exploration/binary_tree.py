"""The binary tree of Janz et al. 2019, "Successor Uncertainties": one sequence of decisions in 2^size pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from bdqn.envs.exploration.tabular import Outcome, State, Tabular


class BinaryTree(Tabular):
    """``size`` decisions: at each, one action ends the episode with nothing; to go on at all of them pays 1.

    Which action goes on is drawn for each decision from ``mapping_seed``, so there is no need to shuffle the actions.
    States are numbered as in the paper's program: decisions are even, ends are odd, and the last state is 2 * size.
    """

    def __init__(self, size: int = 10, mapping_seed: int = 0) -> None:
        super().__init__((0,), 2, size, -1)
        self.size = size
        self.goes_on = np.random.default_rng(mapping_seed).integers(2, size=size)
        self.observation_space = gym.spaces.Discrete(2 * size + 1)

    def outcomes(self, state: State, move: int) -> Sequence[Outcome]:
        """Go on to the next decision, or end."""
        at = state[0]
        if move != self.goes_on[at // 2]:
            return [Outcome((at + 1,), ends=True)]
        last = at + 2 == 2 * self.size
        return [Outcome((at + 2,), float(last), last)]

    def observe(self, state: State) -> Any:
        """The number of the state."""
        return np.int64(state[0])
