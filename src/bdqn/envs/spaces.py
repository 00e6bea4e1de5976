"""Which action and observation spaces the agents support."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium import spaces


class UnsupportedSpace(ValueError):
    """The agents do not support the actions or observations of an environment."""


def name_of(env: gym.Env[Any, Any]) -> str:
    """The id of an environment, or the name of its class."""
    return env.spec.id if env.spec else type(env.unwrapped).__name__


def check_spaces(env: gym.Env[Any, Any]) -> None:
    """Refuse environments without Discrete actions or without Box or Discrete observations, and suggest a fix.

    Several actions at once and structured observations have been turned into these (`bdqn.envs.adapted`).
    """
    name = name_of(env)
    observations, actions = _declared(env, "observation_space"), _declared(env, "action_space")
    if not isinstance(actions, spaces.Discrete):
        advice = "discretise them, for example with gymnasium.wrappers.TransformAction and a table of actions"
        if isinstance(actions, spaces.Dict | spaces.Tuple):
            advice = "make it a MultiDiscrete, with one number for each part"
        raise UnsupportedSpace(
            f"{name} has the action space {actions}, but bdqn needs Discrete, MultiDiscrete or MultiBinary actions: "
            f"{advice}."
        )
    if not isinstance(observations, (spaces.Box, spaces.Discrete)):
        raise UnsupportedSpace(
            f"{name} has the observation space {observations}, but bdqn needs Box, Discrete, MultiDiscrete, "
            "MultiBinary, or a Dict or Tuple of these: turn it into numbers with "
            "gymnasium.wrappers.TransformObservation."
        )
    for kind, space in (("action", actions), ("observation", observations)):
        if isinstance(space, spaces.Discrete) and space.n < 1:
            raise UnsupportedSpace(f"{name} has the {kind} space {space}, but bdqn needs at least one {kind}: raise n.")
    if isinstance(observations, spaces.Box) and (not observations.shape or 0 in observations.shape):
        advice = "observe a constant if there is nothing to observe" if observations.shape else "declare shape (1,)"
        raise UnsupportedSpace(
            f"{name} has the observation space {observations} of shape {observations.shape}, but bdqn needs at least "
            f"one axis and one number: {advice}."
        )


def _declared(env: gym.Env[Any, Any], which: str) -> spaces.Space[Any]:
    space = getattr(env, which, None)
    if not isinstance(space, spaces.Space):
        found = "has none" if space is None else f"has a {type(space).__module__}.{type(space).__name__}"
        raise UnsupportedSpace(f"{name_of(env)} must have an {which} of gymnasium.spaces, but {found}.")
    return space
