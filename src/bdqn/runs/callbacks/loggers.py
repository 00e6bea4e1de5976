"""Loggers: callbacks that hand metrics to another tool. A missing package is reported before training starts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdqn.config.extras import missing
from bdqn.config.settings import SettingError, nearest
from bdqn.runs.callbacks.base import Callback
from bdqn.runs.callbacks.early_stopping import EVALUATED

if TYPE_CHECKING:
    from bdqn.learner import Learner
    from bdqn.runs.evaluation import Evaluation


class Logger(Callback):
    """Rows of metrics and evaluations become numbers at a decision."""

    name: str  # what it writes, in a sentence

    @abstractmethod
    def log(self, values: Mapping[str, float], decision: int) -> None:
        """Hand these over."""

    def on_metrics(self, learner: Learner, metrics: Mapping[str, float]) -> None:
        self.log(metrics, learner.num_timesteps)

    def on_evaluation(self, learner: Learner, evaluation: Evaluation) -> None:
        self.log({EVALUATED: evaluation.mean}, learner.num_timesteps)


def import_for(logger: str, module: str, extra: str) -> Any:
    """The module of an extra; a missing one is named, with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SettingError(missing(logger, extra, error)) from error


def run_facts(learner: Learner) -> dict[str, Any]:
    """What identifies a run: agent, environment, preset, seed, and every setting."""
    configuration = learner.configuration
    return {
        "agent": configuration.agent,
        "env": learner.env_name,
        "preset": configuration.preset,
        "seed": learner.seed,
        "num_envs": learner.envs.num_envs,
        **configuration.values,
    }


def loggers_of(names: str, folder: Path) -> list[Logger]:
    """The loggers with these names, separated by commas, for the run in a directory."""
    return [_makers()[_known(name)](folder) for name in dict.fromkeys(names.split(",")) if name]


def _known(name: str) -> str:
    if name not in _makers():
        raise SettingError(f"Unknown logger {name!r}; {nearest(name, _makers())}")
    return name


def _makers() -> dict[str, Callable[[Path], Logger]]:
    from bdqn.runs.callbacks.mlflow import MLflow
    from bdqn.runs.callbacks.tensorboard import TensorBoard
    from bdqn.runs.callbacks.wandb import WandB

    return {
        "tensorboard": TensorBoard,
        "wandb": lambda folder: WandB(name=_run_name(folder), dir=str(folder)),
        "mlflow": lambda folder: MLflow(run_name=_run_name(folder)),
    }


def _run_name(folder: Path) -> str:
    """Environment, agent, time and seed, as in runs/ENV/AGENT/TIME_sSEED."""
    return "/".join(folder.absolute().parts[-3:])
