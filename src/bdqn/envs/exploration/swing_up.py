"""Cart-pole swing-up with a reward only near the top (after bsuite's, Osband et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
EDGE, REWARDED, SLOW = 3.0, 1.0, 1.0  # where the track ends; within this, and slower than this, the top is rewarded

Observation = NDArray[np.float32]


class SwingUp(gym.Env[Observation, Any]):
    """The pole hangs down. Every step with it upright (cosine above ``height``), slow and near the middle gives 1.

    Moving may cost a little. Off the track the episode ends; otherwise it is truncated after ``limit`` decisions.
    """

    random_return = 0.0  # less than one step in 10,000 of a random policy is rewarded

    def __init__(self, height: float = 0.8, move_cost: float = 0.0, limit: int = 500, mapping_seed: int = -1) -> None:
        self.height, self.move_cost, self.limit = height, move_cost, limit
        self.optimal_return = float(limit)  # an upper bound: it takes some hundred steps to get up
        order = np.arange(3)
        self.move_of = order if mapping_seed < 0 else np.random.default_rng(mapping_seed).permutation(order)
        self.action_space = gym.spaces.Discrete(3)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self._state, self._elapsed = np.zeros(4), 0  # place and speed, angle (0 is up) and its speed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Let the pole hang nearly still."""
        super().reset(seed=seed)
        self._state = np.array([0.0, 0.0, np.pi, 0.0]) + self.np_random.uniform(-0.05, 0.05, 4)
        self._elapsed = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Push left (0), not at all (1) or right (2)."""
        push = int(self.move_of[action]) - 1
        place, speed, angle, turning = self._state
        sine, cosine = np.sin(angle), np.cos(angle)
        total = CART + POLE
        common = (push * FORCE + POLE * HALF_LENGTH * turning**2 * sine) / total
        angular = (GRAVITY * sine - cosine * common) / (HALF_LENGTH * (4 / 3 - POLE * cosine**2 / total))
        linear = common - POLE * HALF_LENGTH * angular * cosine / total
        speed, turning = speed + SECONDS * linear, turning + SECONDS * angular
        self._state = np.array([place + SECONDS * speed, speed, angle + SECONDS * turning, turning])
        self._elapsed += 1
        upright = np.cos(self._state[2]) > self.height and abs(turning) < SLOW and abs(self._state[0]) < REWARDED
        lost = bool(abs(self._state[0]) > EDGE)
        reward = float(upright) - self.move_cost * abs(push)
        return self._observe(), reward, lost, not lost and self._elapsed >= self.limit, {}

    def get_env_state(self) -> dict[str, Any]:
        """Give where cart and pole are."""
        return {"state": self._state, "elapsed": self._elapsed}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        """Take back what `get_env_state` gave."""
        self._state, self._elapsed = np.array(state["state"], np.float64), state["elapsed"]

    def _observe(self) -> Observation:
        place, speed, angle, turning = self._state
        return np.array([place, speed, np.cos(angle), np.sin(angle), turning], np.float32)
