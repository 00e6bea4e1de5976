"""Environments so small that the right Q-values are known: each isolates one thing that an agent can get wrong."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import bdqn
from bdqn.agents import AGENTS
from bdqn.config.resolve import unread
from bdqn.config.settings import settings_of
from bdqn.envs import Source

LEARNING = [name for name, recipe in AGENTS.items() if recipe.choices(recipe.settings()).learns]
TRAINING = {
    "learning_starts": 100,
    "learning_rate": 3e-3,
    "target_update_interval": 50,
    "train_freq": 1,
    "batch_size": 32,
    "gamma": 0.5,
    "features": 32,
}
OWN = {
    "exploration_decay_steps": 400,
    "temperature_decay_steps": 400,
    "posterior_update_interval": 50,
    # At the paper's 0.5 every prediction and every target lacks half of the features: values keep that noise.
    "dropout_rate": 0.1,
    "kl_scale": 0.01,  # a prior that counts for less beside a few hundred transitions
}


def trained(agent: str, source: Source, steps: int = 500, **settings: Any) -> bdqn.Learner:
    """Values are read without masks, without noise, and as the mean over members or draws."""
    known = settings_of(AGENTS[agent].settings).keys() - unread(AGENTS[agent].settings(), OWN)
    own = {name: value for name, value in OWN.items() if name in known}
    return bdqn.make(agent, source, seed=1, **TRAINING, **own, **settings).learn(steps)


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
