"""A finite problem as a Gymnasium environment, for agents outside this package."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from bdqn.linear.draws import choose
from bdqn.linear.mdps import MDP


class MDPEnv(gym.Env[np.int64, Any]):
    """Observations are h S + x for step h and state x, because Q* depends on both; the last S mean the end."""

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp
        self.observation_space = gym.spaces.Discrete((mdp.horizon + 1) * mdp.states)
        self.action_space = gym.spaces.Discrete(mdp.actions)
        self.optimal_return = float(mdp.start @ mdp.v_star[0])
        self._h = self._state = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode in a state drawn from P_0."""
        super().reset(seed=seed)
        self._h, self._state = 0, self._drawn(self.mdp.start)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Take one of H steps; the last one terminates."""
        where = (self._h, self._state, int(action))
        reward = float(self.mdp.rewards[where] + self.mdp.reward_noise * self.np_random.standard_normal())
        self._state = self._drawn(self.mdp.transitions[where])
        self._h += 1
        return self._observe(), reward, self._h == self.mdp.horizon, False, {}

    def _drawn(self, probabilities: np.ndarray[Any, np.dtype[np.float64]]) -> int:
        return int(choose(probabilities, np.asarray(self.np_random.random())))

    def _observe(self) -> np.int64:
        return np.int64(self._h * self.mdp.states + self._state)
