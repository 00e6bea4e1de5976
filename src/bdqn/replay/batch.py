"""Transitions taken out of the replay memory: what an update learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Masks = NDArray[np.bool_] | None
Numbers = NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Transitions (obs, action, reward, next_obs); ``terminal`` where nothing of value follows.

    With n-step returns ``next_obs`` and ``terminal`` are those after ``steps`` decisions: n, or fewer where value or
    episode ends or the present is reached. Their rewards stand side by side, zeros after the last.
    """

    obs: NDArray[Any]
    action: NDArray[np.int64]
    reward: NDArray[np.float32]  # (batch,) or (batch, n)
    next_obs: NDArray[Any]
    terminal: NDArray[np.bool_]
    steps: NDArray[np.int64] | None = None  # None: one each
    mask: Masks = None  # which members may learn from it (batch, members); None: all
    next_allowed: Masks = None  # which actions may be taken at next_obs (batch, actions); None: all
    bonus: Numbers = None  # of the rewards' shape; None: there are none
    returns: Numbers = None  # what followed in all (batch,), NaN where that is not known; None: nobody keeps account


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of actions: all of a batch but its observations, and where its next observations stand."""

    action: NDArray[np.int64]
    reward: NDArray[np.float32]
    next_slot: NDArray[np.int64]
    terminal: NDArray[np.bool_]
    steps: NDArray[np.int64] | None
    bonus: Numbers
