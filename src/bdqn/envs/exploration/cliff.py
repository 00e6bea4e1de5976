"""A walk along a cliff, where a slip may end it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from bdqn.envs.exploration.grid import MOVES
from bdqn.envs.exploration.tabular import Outcome, State, Tabular


class Cliff(Tabular):
    """Walk from the lower left corner to the lower right one; between them is a cliff.

    The goal pays 1, a fall costs 1, and both end the episode. A step costs a little, so the way along the edge is the
    cheapest. With probability ``slip`` a step goes anywhere, which makes that way the most dangerous. Seen as
    coordinates.
    """

    def __init__(
        self,
        width: int = 8,
        height: int = 4,
        step_cost: float = 0.02,
        slip: float = 0.2,
        limit: int = 200,
        mapping_seed: int = -1,
    ) -> None:
        super().__init__((0, 0), len(MOVES), limit, mapping_seed)
        self.width, self.height, self.step_cost, self.slip = width, height, step_cost, slip
        self.observation_space = gym.spaces.Box(0.0, np.array([width - 1, height - 1], np.float32), dtype=np.float32)

    def outcomes(self, state: State, move: int) -> Sequence[Outcome]:
        """Go one step; walls stop it, the cliff does not."""
        share = self.slip / len(MOVES)
        each = ((m, share + (1 - self.slip) * (m == move)) for m in range(len(MOVES)))
        return [self._going(state, m, probability) for m, probability in each if probability]

    def _going(self, state: State, move: int, probability: float) -> Outcome:
        size = (self.width, self.height)
        x, y = (min(max(at + by, 0), n - 1) for at, by, n in zip(state, MOVES[move], size, strict=True))
        if y or not x:
            return Outcome((x, y), -self.step_cost, False, probability)
        return Outcome((x, y), 1.0 if x == self.width - 1 else -1.0, True, probability)

    def observe(self, state: State) -> Any:
        """Coordinates."""
        return np.array(state, np.float32)
