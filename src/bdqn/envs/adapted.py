"""Environments as the loop takes them: Discrete actions, and Box or Discrete observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from bdqn.envs.answers import MANY, MANY_ACTIONS, MANY_CATEGORIES, Expected, ExpectedCategory
from bdqn.envs.products import ProductActions
from bdqn.envs.records import STRUCTURED, ExpectedRecord, RecordObservations, RecordSpace
from bdqn.envs.spaces import name_of

#: By the kind of space, the most special one first.
EXPECTED: dict[type, Callable[..., Expected]] = {
    RecordSpace: ExpectedRecord,
    spaces.Discrete: ExpectedCategory,
    spaces.Box: Expected,
}


def adapted(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The environment itself, or wrapped: several actions as one, and structured observations as records."""
    if isinstance(getattr(env, "action_space", None), spaces.MultiDiscrete | spaces.MultiBinary):
        env = ProductActions(env)
    if isinstance(getattr(env, "observation_space", None), STRUCTURED):
        env = RecordObservations(env)
    return env


def expected_of(env: gym.Env[Any, Any], said: set[str]) -> Expected:
    """What to expect of an environment; its spaces have been checked."""
    observations = env.observation_space
    made = next(made for kind, made in EXPECTED.items() if isinstance(observations, kind))
    expected = made(name_of(env), observations, said)
    for kind, text, space in (
        ("actions", MANY_ACTIONS, env.action_space),
        ("categories", MANY_CATEGORIES, observations),
    ):
        if isinstance(space, spaces.Discrete) and space.n > MANY:
            expected.say(kind, text.format(expected.name, int(space.n)))
    return expected
