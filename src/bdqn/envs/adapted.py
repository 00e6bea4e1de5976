"""Environments as the loop takes them: Discrete actions, and Box or Discrete observations."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium import spaces

from bdqn.envs.products import ProductActions
from bdqn.envs.records import STRUCTURED, RecordObservations


def adapted(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The environment itself, or wrapped: several actions as one, and structured observations as records."""
    if isinstance(getattr(env, "action_space", None), spaces.MultiDiscrete | spaces.MultiBinary):
        env = ProductActions(env)
    if isinstance(getattr(env, "observation_space", None), STRUCTURED):
        env = RecordObservations(env)
    return env
