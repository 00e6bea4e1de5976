"""What the environments tell the agent and the record: the only thing that all three know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode, as it is reported."""

    env: int
    raw_return: float  # undiscounted, unclipped
    length: int  # decisions
    truncated: bool  # cut short, not terminated
    failed: bool = False  # cut short because its environment failed


@dataclass(frozen=True, slots=True)
class Restart:
    """An environment that failed and was made anew."""

    env: int
    reason: str
    obs: NDArray[Any] | None  # where its new episode began, if that was amid a decision, which was then taken again


@dataclass(frozen=True, slots=True)
class Step:
    """What one decision in each of N environments led to. The arrays are never written to again."""

    next_obs: NDArray[Any]  # (N, *obs) true successors: the final observation where an episode ended
    reward: NDArray[np.float64]  # (N,) as the environment gave it
    terminal: NDArray[np.bool_]  # (N,) nothing of value beyond, whether or not the episode is over
    truncated: NDArray[np.bool_]  # (N,) cut short, so `next_obs` still has value unless `terminal`
    ended: NDArray[np.bool_]  # (N,) the episode is over and `obs` is the first of the next one
    obs: NDArray[Any]  # (N, *obs) where to act next; the same array as `next_obs` if no episode ended
    episodes: tuple[Episode, ...]  # those that ended in this step
    restarts: tuple[Restart, ...] = ()  # before anything else of this step
