"""Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bdqn.runs.callbacks.loggers import Logger, import_for, run_facts

if TYPE_CHECKING:
    from bdqn.learner import Learner


class WandB(Logger):
    """Logs a run to Weights & Biases. ``WANDB_MODE=offline`` keeps it on the disk, for ``wandb sync``."""

    name = "to Weights & Biases"

    def __init__(self, project: str = "bdqn", **init: Any) -> None:
        """``init`` goes on to ``wandb.init``: ``name``, ``group``, ``entity``, ``mode``, ..."""
        self._wandb = import_for("Weights & Biases", "wandb", "wandb")
        self._init = {"project": project, **init}

    def on_start(self, learner: Learner, total_steps: int) -> None:
        # Training prints what it has to say itself, and a run's files stay as they are.
        settings = self._wandb.Settings(silent=True, console="off")
        config = run_facts(learner) | self._init.get("config", {})
        self._run = self._wandb.init(**{"settings": settings, **self._init, "config": config})

    def log(self, values: Mapping[str, float], decision: int) -> None:
        self._run.log(dict(values), step=decision)

    def on_end(self, learner: Learner) -> None:
        self._run.finish()
