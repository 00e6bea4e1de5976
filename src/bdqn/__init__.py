"""Bayesian DQN: deep reinforcement learning that explores by Thompson sampling, and knows how sure it is.

``bdqn.make("bdqn", "CartPole-v1").learn(50_000)`` trains; ``.q_posterior(obs)`` says how sure it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bdqn import envs
    from bdqn.attached.attach import attach
    from bdqn.envs.check import check_env
    from bdqn.learner import Learner, make
    from bdqn.qlearning.q_posterior import QPosterior
    from bdqn.runs.callbacks.base import Callback
    from bdqn.runs.callbacks.early_stopping import EarlyStopping
    from bdqn.runs.callbacks.mlflow import MLflow
    from bdqn.runs.callbacks.progress_bar import ProgressBar
    from bdqn.runs.callbacks.tensorboard import TensorBoard
    from bdqn.runs.callbacks.wandb import WandB
    from bdqn.storage.checkpoints import Checkpoints
    from bdqn.storage.export import export
    from bdqn.storage.saved_agents import load

__version__: str
__all__ = [
    "Callback",
    "Checkpoints",
    "EarlyStopping",
    "Learner",
    "MLflow",
    "ProgressBar",
    "QPosterior",
    "TensorBoard",
    "WandB",
    "__version__",
    "attach",
    "check_env",
    "envs",
    "export",
    "load",
    "make",
]

_HOMES = {
    "make": "learner",
    "Learner": "learner",
    "QPosterior": "qlearning.q_posterior",
    "load": "storage.saved_agents",
    "export": "storage.export",
    "Checkpoints": "storage.checkpoints",
    "check_env": "envs.check",
    "attach": "attached.attach",
    "Callback": "runs.callbacks.base",
    "EarlyStopping": "runs.callbacks.early_stopping",
    "ProgressBar": "runs.callbacks.progress_bar",
    "TensorBoard": "runs.callbacks.tensorboard",
    "WandB": "runs.callbacks.wandb",
    "MLflow": "runs.callbacks.mlflow",
}


def __getattr__(name: str) -> Any:
    """Import torch only when something that needs it is asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("bdqn")
    from importlib import import_module

    if name == "envs":
        return import_module("bdqn.envs")
    if name not in _HOMES:
        raise AttributeError(f"module 'bdqn' has no attribute {name!r}")
    return getattr(import_module(f"bdqn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """What it offers, whether or not it has been imported yet."""
    return sorted(__all__)
