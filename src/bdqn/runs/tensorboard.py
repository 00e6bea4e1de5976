"""TensorBoard's writer of events, where it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bdqn.config.extras import missing
from bdqn.config.settings import SettingError


def event_writer() -> Any:
    """Import TensorBoard's writer. A missing package is reported before the run starts."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SettingError(missing("--tensorboard", "tensorboard", error)) from error
    if not isinstance(threading.excepthook, _WithoutTensorBoard):
        threading.excepthook = _WithoutTensorBoard(threading.excepthook)
    return SummaryWriter


@dataclass(frozen=True)
class _WithoutTensorBoard:
    """A ``threading.excepthook`` that prints no traceback of TensorBoard's thread when it cannot write.

    The next call of its writer raises the same error, which is then reported in one sentence.
    """

    usual: Callable[[threading.ExceptHookArgs], object]

    def __call__(self, error: threading.ExceptHookArgs) -> None:
        if not (type(error.thread).__module__.startswith("tensorboard.") and isinstance(error.exc_value, OSError)):
            self.usual(error)
