"""Freed memory kept for the tensors that come next."""

from __future__ import annotations

import ctypes
import os

# Parameters of the C library's mallopt, as in malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3

LARGEST = 32 * 2**20  # bytes; the largest threshold that the C library accepts on 64 bits
KEPT = 256 * 2**20  # bytes that may stay free


def keep_freed_memory() -> None:
    """Ask the C library to use freed memory again, instead of returning it to the system.

    Large tensors that come and go at every update get new pages each time otherwise, and the system clears every page.
    Does nothing where the C library has no such setting.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, LARGEST)
        set_option(M_TRIM_THRESHOLD, KEPT)
