"""An environment that misbehaves when told to; its id imports this module: ``support.troubled:Troubled-v0``."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

TROUBLE = "TROUBLED_ENVIRONMENT"  # what happens, after how many decisions: exit:50
ENV = "support.troubled:Troubled-v0"


class Troubled(gym.Env[np.ndarray, int]):
    """Random observations in episodes of ten decisions."""

    observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        what, _, after = os.environ.get(TROUBLE, "").partition(":")
        self.what, self.after, self.decisions = what, int(after or 0), 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self._obs(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.decisions += 1
        if self.what and self.decisions >= self.after:
            self._misbehave()
        return self._obs(), 1.0, self.decisions % 10 == 0, False, {}

    def _obs(self) -> np.ndarray:
        return self.np_random.standard_normal(3).astype(np.float32)

    def _misbehave(self) -> None:
        match self.what:
            case "exit":
                sys.exit(0)
            case "quit":  # as a C library may
                os._exit(0)
            case "pipe":
                raise BrokenPipeError(32, "Broken pipe")
            case "stuck":
                print("stuck", flush=True)
                while True:
                    time.sleep(1)


gym.register("Troubled-v0", Troubled)
