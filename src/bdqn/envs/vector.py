"""N environments stepped together, with everything a learner must not confuse kept apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bdqn.envs.spaces import check_spaces
from bdqn.step import Episode, Step

#: An environment sets this key of its info where its episode goes on, but no value should be carried across.
TERMINAL_FOR_LEARNER = "terminal_for_learner"


class Environments:
    """N environments stepped together in this process, each restarted in the same step its episode ends."""

    def __init__(self, envs: Sequence[gym.Env[Any, Any]], seeds: Sequence[int]) -> None:
        """Seed and reset every environment once; the resets to come continue its own random stream."""
        for env in envs:
            check_spaces(env)
        first = envs[0]
        for i, env in enumerate(envs):
            if (env.observation_space, env.action_space) != (first.observation_space, first.action_space):
                raise ValueError(
                    f"Environment {i} has spaces {env.observation_space} and {env.action_space}, "
                    f"unlike environment 0 with {first.observation_space} and {first.action_space}."
                )
        self.envs = tuple(envs)
        self.observation_space = cast(spaces.Box | spaces.Discrete, first.observation_space)
        self.action_space = cast(spaces.Discrete, first.action_space)
        # Agents count observations and actions from zero, whatever the environment does.
        self._obs_start = int(getattr(self.observation_space, "start", 0))
        self._action_start = int(self.action_space.start)
        # Networks compute in float32: converting here halves the replay memory.
        shape = cast(tuple[int, ...], self.observation_space.shape)
        dtype = self.observation_space.dtype
        self._obs = np.empty((len(envs), *shape), np.float32 if dtype == np.float64 else dtype)
        for i, (env, seed) in enumerate(zip(envs, seeds, strict=True)):
            self._write(self._obs, i, env.reset(seed=int(seed))[0])
        self._returns = [0.0] * len(envs)
        self._lengths = [0] * len(envs)

    @property
    def num_envs(self) -> int:
        """N."""
        return len(self.envs)

    @property
    def obs(self) -> NDArray[Any]:
        """Where to act next, (N, *obs)."""
        return self._obs

    def step(self, actions: NDArray[np.integer[Any]] | Sequence[int]) -> Step:
        """Take one decision in every environment."""
        count = len(self.envs)
        next_obs = np.empty_like(self._obs)
        reward = np.empty(count)
        terminal = np.empty(count, np.bool_)
        truncated = np.empty(count, np.bool_)
        over = []
        for i, env in enumerate(self.envs):
            action = int(actions[i]) + self._action_start
            observation, score, terminated, cut_short, info = env.step(action)
            self._write(next_obs, i, observation)
            reward[i] = score
            terminal[i] = terminated or info.get(TERMINAL_FOR_LEARNER, False)
            truncated[i] = cut_short
            self._returns[i] += float(score)
            self._lengths[i] += 1
            if terminated or cut_short:
                over.append((i, not terminated))

        ended = np.zeros(count, np.bool_)
        episodes = []
        self._obs = next_obs.copy() if over else next_obs
        for i, cut_short in over:
            ended[i] = True
            episodes.append(Episode(i, self._returns[i], self._lengths[i], cut_short))
            self._returns[i], self._lengths[i] = 0.0, 0
            self._write(self._obs, i, self.envs[i].reset()[0])
        return Step(next_obs, reward, terminal, truncated, ended, self._obs, tuple(episodes))

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()

    def state(self) -> dict[str, NDArray[Any]]:
        """Give what is held here; the environments' own states are not part of it."""
        returns, lengths = np.array(self._returns), np.array(self._lengths)
        return {"obs": self._obs, "returns": returns, "lengths": lengths}

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state` gave."""
        self._obs = state["obs"]
        self._returns = state["returns"].tolist()
        self._lengths = state["lengths"].tolist()

    def _write(self, out: NDArray[Any], i: int, observation: Any) -> None:
        out[i] = observation - self._obs_start if self._obs_start else observation
