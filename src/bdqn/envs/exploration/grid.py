"""An empty room with a reward in the far corner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from bdqn.envs.exploration.tabular import Outcome, State, Tabular

MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))


class Grid(Tabular):
    """Walk from one corner to the opposite one, where the episode ends with a reward of 1.

    A step may cost something, and may slip: with probability ``slip`` it goes anywhere. With a ``near_reward`` two
    steps from the start an episode ends there too, for less. Seen as coordinates, or as an image of agent and goals.
    """

    def __init__(
        self,
        size: int = 16,
        step_cost: float = 0.0,
        slip: float = 0.0,
        near_reward: float = 0.0,
        image: bool = False,
        limit: int | None = None,
        mapping_seed: int = -1,
    ) -> None:
        """``limit`` is 3 * size where it is not given."""
        super().__init__((0, 0), len(MOVES), 3 * size if limit is None else limit, mapping_seed)
        self.size, self.step_cost, self.slip, self.image = size, step_cost, slip, image
        self.goals: dict[State, float] = {(size - 1, size - 1): 1.0}
        if near_reward:
            self.goals[0, 2] = near_reward
        self.observation_space = (
            gym.spaces.Box(0, 1, (size, size, 2), np.bool_)
            if image
            else gym.spaces.Box(0.0, size - 1.0, (2,), np.float32)
        )

    def outcomes(self, state: State, move: int) -> Sequence[Outcome]:
        """Go one step; walls stop it."""
        if not self.slip:
            return [self._going(state, move, 1.0)]
        share = self.slip / len(MOVES)
        return [self._going(state, m, share + (1 - self.slip) * (m == move)) for m in range(len(MOVES))]

    def _going(self, state: State, move: int, probability: float) -> Outcome:
        x, y = (min(max(at + by, 0), self.size - 1) for at, by in zip(state, MOVES[move], strict=True))
        ends = (x, y) in self.goals
        return Outcome((x, y), self.goals[x, y] if ends else -self.step_cost, ends, probability)

    def observe(self, state: State) -> Any:
        """Coordinates; or one channel for the agent, one for goals."""
        if not self.image:
            return np.array(state, np.float32)
        picture = np.zeros((self.size, self.size, 2), np.bool_)
        picture[(*state, 0)] = True
        for goal in self.goals:
            picture[(*goal, 1)] = True
        return picture
