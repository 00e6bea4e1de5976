"""Bayesian DQN: deep reinforcement learning that explores by Thompson sampling, and knows how sure it is.

``bdqn.make("bdqn", "CartPole-v1").learn(50_000)`` trains; ``.q_posterior(obs)`` says how sure it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bdqn.checkpoint import Checkpoints, load
    from bdqn.learner import Learner, QPosterior, make

__all__ = ["Checkpoints", "Learner", "QPosterior", "load", "make"]

_HOMES = {
    "make": "learner",
    "Learner": "learner",
    "QPosterior": "learner",
    "load": "checkpoint",
    "Checkpoints": "checkpoint",
}


def __getattr__(name: str) -> Any:
    """Import torch only when something that needs it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bdqn' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"bdqn.{_HOMES[name]}"), name)
