"""Which environments the agents can act in."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium import spaces


class UnsupportedSpace(ValueError):
    """An environment whose actions or observations the agents cannot handle."""


def check_spaces(env: gym.Env[Any, Any]) -> None:
    """Refuse, with advice, an environment without Discrete actions, or whose observations are no arrays."""
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    if not isinstance(env.action_space, spaces.Discrete):
        raise UnsupportedSpace(
            f"{name} has the action space {env.action_space}, but bdqn needs Discrete actions: discretise "
            "them, for example with gymnasium.wrappers.TransformAction and a table of actions."
        )
    if isinstance(env.observation_space, (spaces.Box, spaces.Discrete)):
        return
    raise UnsupportedSpace(
        f"{name} has the observation space {env.observation_space}, but bdqn needs Box or Discrete: "
        "wrap the environment in gymnasium.wrappers.FlattenObservation."
    )
