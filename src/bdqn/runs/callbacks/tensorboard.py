"""TensorBoard's events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bdqn.runs.callbacks.loggers import Logger, import_for

if TYPE_CHECKING:
    from bdqn.learner import Learner


class TensorBoard(Logger):
    """Writes ``events.*`` to a directory. Training that goes on replaces what came after its decision."""

    name = "TensorBoard events"

    def __init__(self, folder: str | Path) -> None:
        self._folder = str(folder)
        self._make_writer = import_for("TensorBoard", "torch.utils.tensorboard", "tensorboard").SummaryWriter
        if not isinstance(threading.excepthook, _WithoutTensorBoard):
            threading.excepthook = _WithoutTensorBoard(threading.excepthook)

    def on_start(self, learner: Learner, total_steps: int) -> None:
        step = learner.num_timesteps
        self._events = self._make_writer(self._folder, purge_step=step + 1 if step else None)

    def log(self, values: Mapping[str, float], decision: int) -> None:
        for name, value in values.items():
            self._events.add_scalar(name, value, decision)

    def on_end(self, learner: Learner) -> None:
        self._events.close()


@dataclass(frozen=True)
class _WithoutTensorBoard:
    """A ``threading.excepthook`` that prints no traceback of TensorBoard's thread when it cannot write.

    The next call of its writer raises the same error, which is then reported in one sentence.
    """

    usual: Callable[[threading.ExceptHookArgs], object]

    def __call__(self, error: threading.ExceptHookArgs) -> None:
        if not (type(error.thread).__module__.startswith("tensorboard.") and isinstance(error.exc_value, OSError)):
            self.usual(error)
