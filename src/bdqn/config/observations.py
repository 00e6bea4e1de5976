"""What observations look like, as the networks and the replay buffer need to know it. NumPy only."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Smallest image sides that the paper's three convolutions and MinAtar's single one can take.
NATURE_SIDE, MINATAR_SIDE = 36, 3


@dataclass(frozen=True)
class ObservationSpec:
    """What an observation looks like, without Gymnasium: a Discrete space has ``categories``, a Box has a shape.

    A structured observation is a record: bytes, in which each of its ``leaves`` has a place.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    categories: int = 0
    first_category: int = 0
    low: NDArray[np.float32] | None = None  # declared bounds, infinite where there are none
    high: NDArray[np.float32] | None = None
    follows_range: bool = False  # numbers without declared bounds are scaled by the range seen so far
    stack: int = 0  # observations are this many frames, newest last, shared between consecutive ones
    counts: tuple[int, ...] = ()  # each number is one of so many categories, from zero on; empty: they are numbers
    start: int | None = None  # of a leaf: its first byte in the record
    leaves: tuple[tuple[str, ObservationSpec], ...] = ()  # of a record: its parts by name

    @property
    def inputs(self) -> int:
        """How many numbers the network reads."""
        if self.leaves:
            return sum(leaf.inputs for _, leaf in self.leaves)
        return max(math.prod(self.shape), self.categories, sum(self.counts))

    def following_range(self) -> ObservationSpec:
        """The same, whose numbers without declared bounds are scaled by the range seen."""
        leaves = tuple((name, leaf.following_range()) for name, leaf in self.leaves)
        return replace(self, follows_range=True, leaves=leaves)

    @property
    def is_image(self) -> bool:
        """Height, width and channels, or a large table of bytes; nothing smaller than the smallest filter.

        A record is one if any of its leaves is.
        """
        if self.leaves or self.counts:
            return any(leaf.is_image for _, leaf in self.leaves)
        gray = len(self.shape) == 2 and min(self.shape) >= NATURE_SIDE and self.dtype == np.uint8
        return gray or (len(self.shape) == 3 and min(self.sides) >= MINATAR_SIDE)

    @property
    def channels_last(self) -> bool:
        """Frames are stacked along the first axis; other images have channels last, unless that axis is longer."""
        return len(self.shape) == 3 and not self.stack and self.shape[2] <= min(self.shape[:2])

    @property
    def channels(self) -> int:
        return 1 if len(self.shape) == 2 else self.shape[2] if self.channels_last else self.shape[0]

    @property
    def sides(self) -> tuple[int, ...]:
        """Height and width."""
        return self.shape[:2] if self.channels_last or len(self.shape) == 2 else self.shape[1:]
