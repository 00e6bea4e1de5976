"""What observations look like, as the networks and the replay buffer need to know it. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Smallest image sides that the paper's three convolutions and MinAtar's single one can take.
NATURE_SIDE, MINATAR_SIDE = 36, 3


@dataclass(frozen=True)
class ObservationSpec:
    """What an observation looks like, without Gymnasium: a Discrete space has ``categories``, a Box has a shape."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    categories: int = 0
    first_category: int = 0
    low: NDArray[np.float32] | None = None  # declared bounds, infinite where there are none
    high: NDArray[np.float32] | None = None
    follows_range: bool = False  # numbers without declared bounds are scaled by the range seen so far
    stack: int = 0  # observations are this many frames, newest last, shared between consecutive ones

    @property
    def is_image(self) -> bool:
        """Height, width and channels, or a large table of bytes; nothing smaller than the smallest filter."""
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
