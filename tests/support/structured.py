"""Environments with structured observations and several actions at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

PARTS = spaces.Dict(
    {
        "camera": spaces.Dict({"left": spaces.Box(0, 255, (5, 5, 2), np.uint8)}),
        "speed": spaces.Box(-np.inf, np.inf, (3,), np.float64),
        "bounded": spaces.Box(-2, 4, (2, 2), np.float32),
        "gear": spaces.Discrete(3, start=-1),
        "dials": spaces.MultiDiscrete([[3, 2], [4, 5]], start=[[1, 0], [0, -2]]),
        "lamps": spaces.MultiBinary((2, 3)),
        "clock": spaces.Box(0, np.inf, (), np.float32),
        "pair": spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 9, (1,), np.int16))),
    }
)


class Structured(gym.Env[Any, Any]):
    """Random observations of every kind, and two actions at once; what they earn depends on both."""

    observation_space: spaces.Space[Any] = PARTS
    action_space: spaces.Space[Any] = spaces.MultiDiscrete([2, 3], start=[0, 5])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.time = 0
        return self.observe(), {}

    def observe(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))  # so that its own generator has no state
        return self.observation_space.sample()

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.time += 1
        return self.observe(), float(np.sum(action)) / 4, self.np_random.random() < 0.1, self.time == 9, {}

    def get_env_state(self) -> dict[str, Any]:
        return {"time": self.time}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        self.time = state["time"]


class OneLeafTells(gym.Env[Any, Any]):
    """One decision; pays 1 if it is what one leaf of the observation says, else -1. The other leaves are noise."""

    action_space = spaces.Discrete(2)
    LEAVES = ("image", "vector", "number", "category", "dials", "lamps")
    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (4, 4, 1), np.uint8),
            "vector": spaces.Box(-1, 1, (2,), np.float32),
            "number": spaces.Box(-1, 1, (), np.float32),
            "category": spaces.Discrete(2, start=3),
            "dials": spaces.MultiDiscrete([2, 2]),
            "lamps": spaces.MultiBinary(2),
        }
    )

    def __init__(self, leaf: str) -> None:
        self.leaf = leaf

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.answer, others = int(self.np_random.integers(2)), self.np_random.integers(2, size=len(self.LEAVES))
        self.other_dial = int(self.np_random.integers(2))
        return self.observation({name: int(bit) for name, bit in zip(self.LEAVES, others, strict=True)}), {}

    def observation(self, bits: dict[str, int]) -> dict[str, Any]:
        bits = {**bits, self.leaf: self.answer}
        return {
            "image": np.full((4, 4, 1), 255 * bits["image"], np.uint8),
            "vector": np.array([2 * bits["vector"] - 1, 0.5], np.float32),
            "number": np.float32(2 * bits["number"] - 1),
            "category": 3 + bits["category"],
            "dials": np.array([self.other_dial, bits["dials"]]),
            "lamps": np.array([1, bits["lamps"]], np.int8),
        }

    def step(self, action: int) -> Any:
        bits = dict.fromkeys(self.LEAVES, 0)
        return self.observation(bits), 1.0 if action == self.answer else -1.0, True, False, {}


class InADict(gym.ObservationWrapper[Any, Any, Any]):
    """A plain observation as the only part of a Dict."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = spaces.Dict({"only": env.observation_space})

    def observation(self, observation: Any) -> Any:
        return {"only": observation}

    def get_env_state(self) -> dict[str, Any]:
        return {}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        pass
