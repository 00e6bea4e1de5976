"""Frames kept packed: an array of frames, as far as a replay buffer uses one, in a fraction of its memory.

Screens of games are mostly background: zlib at its fastest makes those of Pong ten times smaller, and unpacks a
minibatch's in a millisecond.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

ASSUMED = 4  # how many times smaller frames are taken to become, when memory is planned


class PackedFrames:
    """Frames by environment and slot, (environments, slots, *frame)."""

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        empty = zlib.compress(bytes(self._frame_bytes), 1)
        self._packed = [empty] * (shape[0] * shape[1])

    @property
    def _frame_bytes(self) -> int:
        return int(np.prod(self.shape[2:], initial=1)) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """What the packed frames hold; slots that share one count it once."""
        return sum(map(len, {id(packed): packed for packed in self._packed}.values()))

    def __setitem__(self, place: tuple[int, Any], frames: Any) -> None:
        env, slots = place
        frames = np.ascontiguousarray(frames, self.dtype)
        single = np.ndim(slots) == 0
        for slot, frame in zip([slots] if single else slots, [frames] if single else frames, strict=True):
            self._packed[env * self.shape[1] + int(slot)] = zlib.compress(frame.tobytes(), 1)

    def __getitem__(self, place: tuple[int, NDArray[np.int64]]) -> NDArray[Any]:
        env, slots = place
        return self.take(env * self.shape[1] + slots)

    def take(self, places: NDArray[np.int64], axis: int = 0) -> NDArray[Any]:
        """The frames at these places, counted through all environments."""
        out = np.empty((places.size, self._frame_bytes), np.uint8)
        for row, place in zip(out, places.ravel().tolist(), strict=True):
            row[:] = np.frombuffer(zlib.decompress(self._packed[place]), np.uint8)
        return out.view(self.dtype).reshape(*places.shape, *self.shape[2:])

    def reshape(self, *shape: int) -> PackedFrames:
        """It is counted through already."""
        return self
