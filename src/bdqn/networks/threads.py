"""How many threads torch and NumPy compute on. Small networks are many times slower on several than on one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import torch
from threadpoolctl import ThreadpoolController


def best_threads(family: str) -> int:
    """For a network of this family's: one, or for Atari's large one as many as torch has."""
    return torch.get_num_threads() if family == "atari" else 1


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch compute on this many threads in here, and then on as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def numpy_threads(count: int | None = None) -> AbstractContextManager[Any]:
    """NumPy on as many threads as torch: one number to set, and no two pools that fight for the cores."""
    limit: AbstractContextManager[Any] = _blas().limit(limits=count or torch.get_num_threads(), user_api="blas")
    return limit


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()
