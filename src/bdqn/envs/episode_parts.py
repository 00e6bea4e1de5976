"""Which part of an episode an observation belongs to, as part of the observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from bdqn.envs.spaces import UnsupportedSpace


class EpisodeParts(gym.Wrapper[NDArray[np.float32], Any, Any, Any]):
    """Adds one number for each part of an episode to vectors: one for the part that it is in, zero for the others."""

    def __init__(self, env: gym.Env[Any, Any], begins: Sequence[int]) -> None:
        """``begins`` are the decisions at which the second part begins, the third, and so on."""
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise UnsupportedSpace(
                f"EpisodeParts adds numbers to a vector, but observations are {space}: flatten them first, for "
                "instance with gymnasium.wrappers.FlattenObservation."
            )
        self._begins = np.asarray(begins, np.int64)
        if not len(begins) or self._begins[0] < 1 or (np.diff(self._begins) < 1).any():
            raise ValueError(f"begins must be decisions after the first, in ascending order, not {list(begins)}.")
        parts = len(begins) + 1
        low = np.append(space.low, np.zeros(parts)).astype(np.float32)
        high = np.append(space.high, np.ones(parts)).astype(np.float32)
        self.observation_space = gym.spaces.Box(low, high)
        self._decisions = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin with the first part."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._decisions = 0
        return self._with_part(obs), info

    def step(self, action: Any) -> tuple[NDArray[np.float32], Any, bool, bool, dict[str, Any]]:
        """Count the decision."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._decisions += 1
        return self._with_part(obs), reward, terminated, truncated, info

    def _with_part(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        part = np.zeros(len(self._begins) + 1, np.float32)
        part[np.searchsorted(self._begins, self._decisions, side="right")] = 1
        return np.append(np.asarray(obs, np.float32), part)

    def get_env_state(self) -> dict[str, Any]:
        """Give how many decisions of the episode have been taken."""
        return {"decisions": self._decisions}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        """Take back what `get_env_state` gave."""
        self._decisions = int(state["decisions"])
