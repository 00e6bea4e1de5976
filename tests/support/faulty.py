"""An environment that gives a number that is not finite, when told to; ``python -m bdqn`` can make it too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

FAULT = "FAULTY_ENVIRONMENT"  # site:number:decision, where site is observation, reset or reward
EPISODE = 5  # decisions


class Faulty(gym.Env[np.ndarray, int]):
    """Random observations; action 1 pays where the first number is positive. Sound unless ``fault`` says otherwise.

    Counted are decisions of this environment; only environments that were made with ``guilty`` obey.
    """

    observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, fault: str | None = None, guilty: bool = True) -> None:
        given = os.environ.get(FAULT, "") if fault is None else fault
        site, number, decision = given.split(":") if given and guilty else ("", "nan", "0")
        self.site, self.bad, self.from_decision = site, float(number), int(decision)
        self.decisions = self.position = 0
        self.obs = np.zeros(3, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = 0
        return self._observe("reset"), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = 1.0 if (action == 1) == (self.obs[0] > 0) else 0.0
        self.decisions += 1
        self.position += 1
        obs = self._observe("observation")
        return obs, self.bad if self._due("reward") else reward, self.position == EPISODE, False, {}

    def get_env_state(self) -> dict[str, Any]:
        return {"decisions": self.decisions, "position": self.position, "obs": self.obs}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        self.decisions, self.position, self.obs = state["decisions"], state["position"], state["obs"]

    def _observe(self, site: str) -> np.ndarray:
        self.obs = self.np_random.standard_normal(3).astype(np.float32)
        if self._due(site):
            self.obs[1] = self.bad
        return self.obs.copy()

    def _due(self, site: str) -> bool:
        return self.site == site and self.decisions >= self.from_decision


gym.register("Faulty-v0", Faulty)
