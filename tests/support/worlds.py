"""An environment that does as it should, so that a test changes only what it is about."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

EPISODE = 12  # decisions


class World(gym.Env[Any, Any]):
    """Random observations in [-1, 1]; every decision pays 1."""

    observation_space: spaces.Space[Any] = spaces.Box(-1, 1, (4,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 4).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self.observe(), 1.0, self.time == EPISODE, False, {}


def world(**changes: Any) -> type[World]:
    """A World in which something is otherwise."""
    return type("Odd", (World,), changes)
