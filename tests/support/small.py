"""Learners so small that a few hundred decisions show everything: updates, refits, a ring that wraps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

import bdqn
from bdqn.agents import AGENTS
from bdqn.config.settings import settings_of

SMALL: dict[str, Any] = {
    "learning_starts": 30,
    "buffer_size": 80,
    "features": 8,
    "batch_size": 16,
    "target_update_interval": 20,
}
REFITS = {"posterior_update_interval": 20, "posterior_batch_size": 60}


def small(agent: str, source: Any, num_envs: int = 1, **settings: Any) -> bdqn.Learner:
    """A learner in environments of a test."""
    refits = REFITS if "posterior_batch_size" in settings_of(AGENTS[agent].settings) else {}
    return bdqn.make(agent, source, seed=2, num_envs=num_envs, **{**SMALL, **refits, **settings})


def plain_and_wrapped(
    agent: str, wrap: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]
) -> tuple[bdqn.Learner, bdqn.Learner]:
    """Two learners after as many decisions, one in CartPole as it is, one in a CartPole that is wrapped."""

    def cartpole() -> gym.Env[Any, Any]:
        return gym.make("CartPole-v1", disable_env_checker=True)

    return small(agent, cartpole, 2).learn(120), small(agent, lambda: wrap(cartpole()), 2).learn(120)
