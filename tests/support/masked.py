"""Environments with action masks; a forbidden action is an error there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

ACTIONS = 5


class Masked(gym.Env[np.ndarray, int]):
    """Random observations with random masks, of which the observations say nothing; every reward is the action."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(ACTIONS, start=2)
    in_info = True
    by_method = False

    def __init__(self) -> None:
        if self.by_method:
            self.action_masks = lambda: self.mask

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), self.info()

    def observe(self) -> np.ndarray:
        self.mask = self.np_random.random(ACTIONS) < 0.4
        self.mask[self.np_random.integers(ACTIONS)] = True
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def info(self) -> dict[str, Any]:
        return {"action_mask": self.mask.astype(np.int8)} if self.in_info else {}

    def step(self, action: int) -> Any:
        assert self.mask[action - 2], "a forbidden action"
        self.time += 1
        observation = self.observe()
        over = self.np_random.random() < 0.1
        cut = not over and self.time == 12
        if over:
            self.mask[:] = False  # nothing is allowed any more
        return observation, action / 4, bool(over), bool(cut), {} if over else self.info()

    def get_env_state(self) -> dict[str, Any]:
        return {"mask": self.mask, "time": self.time}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        self.mask, self.time = state["mask"].copy(), state["time"]


class MaskedByMethod(Masked):
    in_info, by_method = False, True


class MaskedTwice(Masked):
    by_method = True


class Prize(gym.Env[int, int]):
    """Two rooms. In one, action 2 pays 5. The other is a corridor where it is forbidden, and whose right end pays 1.

    A network that has seen the prize expects it in the corridor, too: only the masks say otherwise.
    """

    observation_space = spaces.Discrete(4)
    action_space = spaces.Discrete(3)
    VALUES = (1 / 4, 1 / 2, 1.0)  # Q* of going right at the corridor's three places, with gamma = 1/2

    def action_masks(self) -> np.ndarray:
        return np.array([True, True, False]) if self.place else np.array([False, False, True])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(4))
        self.time = 0
        return self.place, {}

    def step(self, action: int) -> Any:
        assert self.action_masks()[action], "a forbidden action"
        self.time += 1
        if self.place == 0:
            return 0, 5.0, True, False, {}
        reached = self.place == 3 and action == 1
        self.place = min(3, max(1, self.place + 2 * action - 1))
        return self.place, float(reached), reached, self.time == 6, {}


class AllTrue(gym.Wrapper[Any, Any, Any, Any]):
    """Masks that forbid nothing."""

    def reset(self, **given: Any) -> Any:
        observation, info = self.env.reset(**given)
        return observation, {**info, "action_mask": self._mask()}

    def step(self, action: Any) -> Any:
        *answer, info = self.env.step(action)
        return *answer, {**info, "action_mask": self._mask()}

    def _mask(self) -> np.ndarray:
        return np.ones(self.env.action_space.n, np.int8)
