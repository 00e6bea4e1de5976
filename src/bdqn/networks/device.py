"""Where a network computes, and on how many threads: what cannot be had here is refused. Importing loads no torch."""

from __future__ import annotations

import os
import re

from bdqn.config.settings import SettingError

# A run may come from a larger machine, and threads that wait do little harm; thousands cannot even be started.
MOST_THREADS = max(64, 4 * (os.cpu_count() or 1))


def check_device(device: str) -> None:
    """Refuse a device that torch does not have here, or that keeps no numbers (``meta``)."""
    import torch

    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = re.split(r"(?<=\.)\s|\n", str(error))[0]  # torch goes on at length
        raise SettingError(f"device {device!r} cannot be used here, as cpu can: {reason}") from error


def check_threads(count: int) -> None:
    """Refuse more threads than a process can start."""
    if not 1 <= count <= MOST_THREADS:
        raise SettingError(f"threads must be between 1 and {MOST_THREADS} here, not {count}.")


def use_threads(count: int) -> None:
    """Let torch compute on this many."""
    import torch

    check_threads(count)
    torch.set_num_threads(count)
