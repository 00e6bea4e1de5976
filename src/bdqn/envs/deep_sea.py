"""Deep Sea, the exploration problem of bsuite (Osband et al. 2019, "Behaviour Suite for RL")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Grid = NDArray[np.float32]


class DeepSea(gym.Env[Grid, Any]):
    """Sink one row per step, to the left or to the right; the only treasure is at the bottom right.

    Every move to the right costs a little, so early rewards lead away from the one path in 2^size that pays. The action
    that means right is drawn once per cell. In the stochastic variant a move to the right fails with probability
    1/size, and rewards at the two bottom corners have N(0, 1) noise.
    """

    def __init__(
        self,
        size: int = 10,
        randomize_actions: bool = True,
        mapping_seed: int = 0,
        unscaled_move_cost: float = 0.01,
        stochastic: bool = False,
    ) -> None:
        """``unscaled_move_cost`` is the cost of moving right all the way; ``mapping_seed`` is the same as in bsuite."""
        self.size = size
        self.stochastic = stochastic
        self._move_cost = unscaled_move_cost / size
        # The legacy generator, so that a mapping seed gives the same problem as in bsuite.
        self.right_action = (
            np.random.RandomState(mapping_seed).binomial(1, 0.5, (size, size))
            if randomize_actions
            else np.ones((size, size), np.int64)
        )
        reach = (1 - 1 / size) ** (size - 1) if stochastic else 1.0
        self.optimal_return = reach - unscaled_move_cost
        self.action_space = gym.spaces.Discrete(2)
        self.observation_space = gym.spaces.Box(0.0, 1.0, (size, size), np.float32)
        self._row = self._column = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Grid, dict[str, Any]]:
        """Start at the top left."""
        super().reset(seed=seed)
        self._row = self._column = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[Grid, float, bool, bool, dict[str, Any]]:
        """Sink one row."""
        last = self.size - 1
        right = action == self.right_action[self._row, self._column]
        reward = 1.0 if right and self._column == last else 0.0
        if self.stochastic and self._row == last and self._column in (0, last):
            reward += self.np_random.standard_normal()
        if right:
            reward -= self._move_cost
            slips = self.stochastic and self.np_random.random() <= 1 / self.size
            self._column = min(self._column + (not slips), last)
        else:
            self._column = max(self._column - 1, 0)
        self._row += 1
        return self._observe(), reward, self._row == self.size, False, {}

    def get_env_state(self) -> dict[str, Any]:
        """Return the position of the diver."""
        return {"row": self._row, "column": self._column}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_env_state` returned."""
        self._row, self._column = state["row"], state["column"]

    def _observe(self) -> Grid:
        grid = np.zeros((self.size, self.size), np.float32)
        if self._row < self.size:  # empty below the last row
            grid[self._row, self._column] = 1.0
        return grid
