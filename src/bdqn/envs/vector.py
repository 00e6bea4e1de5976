"""N environments stepped together, with everything a learner must not confuse kept apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bdqn.envs.spaces import check_spaces
from bdqn.envs.state import CannotRestore, get_state, set_state
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
        # Agents count actions from zero, whatever the environment does.
        self._action_start = int(self.action_space.start)
        # Networks compute in float32: converting here halves the replay memory.
        shape = cast(tuple[int, ...], self.observation_space.shape)
        dtype = self.observation_space.dtype
        self._obs = np.empty((len(envs), *shape), np.float32 if dtype == np.float64 else dtype)
        for i, (env, seed) in enumerate(zip(envs, seeds, strict=True)):
            self._obs[i] = env.reset(seed=int(seed))[0]
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
            next_obs[i] = observation
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
            self._obs[i] = self.envs[i].reset()[0]
        return Step(next_obs, reward, terminal, truncated, ended, self._obs, tuple(episodes))

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()

    def state(self) -> dict[str, Any]:
        """Give everything: the environments' own states too, or why one cannot tell it."""
        return {
            "obs": self._obs,
            "returns": list(self._returns),
            "lengths": list(self._lengths),
            "own": [_own_state(env) for env in self.envs],
        }

    def load_state(self, state: Mapping[str, Any], seeds: Sequence[int]) -> dict[int, str]:
        """Take back what `state` gave.

        Environments that cannot be restored are seeded and reset instead; the answer says which, and why.
        """
        if state["obs"].shape != self._obs.shape or state["obs"].dtype != self._obs.dtype:
            raise ValueError(f"observations were {state['obs'].shape}, but now are {self._obs.shape}.")
        if not len(state["returns"]) == len(state["lengths"]) == len(self.envs):
            raise ValueError(f"{len(state['returns'])} episodes were going on, but there are {len(self.envs)}.")
        self._obs = state["obs"].copy()
        self._returns = [float(value) for value in state["returns"]]
        self._lengths = [int(value) for value in state["lengths"]]
        restarted = {}
        for i, (env, own, seed) in enumerate(zip(self.envs, state["own"], seeds, strict=True)):
            reason = own.get("cannot") or _restore(env, own["state"])
            if reason:
                restarted[i] = reason
                self._obs[i] = env.reset(seed=int(seed))[0]
                self._returns[i], self._lengths[i] = 0.0, 0
        return restarted

    def unrestorable(self) -> str | None:
        """Say why an interrupted episode could not be taken up again; None if it could."""
        return _own_state(self.envs[0]).get("cannot")


def _own_state(env: gym.Env[Any, Any]) -> dict[str, Any]:
    try:
        return {"state": get_state(env)}
    except CannotRestore as error:
        return {"cannot": str(error)}


def _restore(env: gym.Env[Any, Any], state: Mapping[str, Any]) -> str | None:
    """Set an environment's state; says why if that cannot be done."""
    try:
        set_state(env, state)
    except CannotRestore as error:
        return str(error)
    return None
