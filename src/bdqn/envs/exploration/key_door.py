"""A key at one end and a door at the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from bdqn.envs.exploration.grid import MOVES
from bdqn.envs.exploration.tabular import Outcome, State, Tabular


class KeyDoor(Tabular):
    """From the middle of a corridor (or of a room) fetch the key, then open the door: a reward of 1, and the end.

    Nothing but the third number that is seen (or the key's channel of the image) tells that the key has been found.
    """

    def __init__(
        self,
        width: int = 20,
        height: int = 1,
        image: bool = False,
        limit: int | None = None,
        mapping_seed: int = -1,
    ) -> None:
        """``limit`` is 4 * (width + height - 1) where it is not given."""
        self.moves = MOVES if height > 1 else MOVES[:2]
        super().__init__(
            (width // 2, height // 2, 0),
            len(self.moves),
            4 * (width + height - 1) if limit is None else limit,
            mapping_seed,
        )
        self.width, self.height, self.image = width, height, image
        self.key, self.door = (0, 0), (width - 1, height - 1)
        self.observation_space = (
            gym.spaces.Box(0, 1, (width, height, 3), np.bool_)
            if image
            else gym.spaces.Box(np.zeros(3, np.float32), np.array([width - 1, max(height - 1, 1), 1], np.float32))
        )

    def outcomes(self, state: State, move: int) -> Sequence[Outcome]:
        """Go one step; walls stop it, and where the key lies it is taken."""
        x = min(max(state[0] + self.moves[move][0], 0), self.width - 1)
        y = min(max(state[1] + self.moves[move][1], 0), self.height - 1)
        has_key = int(state[2] or (x, y) == self.key)
        opens = bool(has_key) and (x, y) == self.door
        return [Outcome((x, y, has_key), float(opens), opens)]

    def observe(self, state: State) -> Any:
        """Coordinates and whether it has the key; or channels of the agent, the key while it lies there, the door."""
        if not self.image:
            return np.array(state, np.float32)
        picture = np.zeros((self.width, self.height, 3), np.bool_)
        picture[(*state[:2], 0)] = True
        picture[(*self.key, 1)] = not state[2]
        picture[(*self.door, 2)] = True
        return picture
