"""Environments so small that the right Q-values are known: each isolates one thing that an agent can get wrong."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Probe(gym.Env[np.ndarray, int]):
    """Episodes through a fixed number of positions; subclasses say what a decision earns and where it ends."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = 0
        self.sign = float(self.np_random.choice([-1.0, 1.0]))
        return self.observation(), {}

    def observation(self) -> np.ndarray:
        return np.array([self.sign, self.position], np.float32)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = self.earn(action)
        self.position += 1
        terminated, truncated = self.over()
        return self.observation(), reward, terminated, truncated, {}

    def earn(self, action: int) -> float:
        raise AssertionError("a probe says what it pays")

    def over(self) -> tuple[bool, bool]:
        return True, False


class ConstantReward(Probe):
    """One decision, reward 1: Q = 1 everywhere."""

    def earn(self, action: int) -> float:
        return 1.0


class ObservedReward(Probe):
    """One decision that pays what is seen: Q = the observation's first number."""

    def earn(self, action: int) -> float:
        return self.sign


class ActionReward(Probe):
    """One decision; action 1 pays 1, action 0 pays -1."""

    def earn(self, action: int) -> float:
        return 2.0 * action - 1.0


class DelayedReward(Probe):
    """Two decisions, reward 1 after the second: Q = gamma, then 1."""

    def earn(self, action: int) -> float:
        return float(self.position == 1)

    def over(self) -> tuple[bool, bool]:
        return self.position == 2, False


class MatchingAction(Probe):
    """One decision; pays 1 if the action is what the observation says, else -1."""

    def earn(self, action: int) -> float:
        return 1.0 if (action == 1) == (self.sign > 0) else -1.0


class EndlessButCut(Probe):
    """Reward 1 for ever, cut after each decision by a time-out: Q = 1 / (1 - gamma) if truncation bootstraps."""

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        observation, info = super().reset(**kwargs)
        observation[:] = 0
        return observation, info

    def observation(self) -> np.ndarray:
        return np.zeros(2, np.float32)

    def earn(self, action: int) -> float:
        return 1.0

    def over(self) -> tuple[bool, bool]:
        return False, True
