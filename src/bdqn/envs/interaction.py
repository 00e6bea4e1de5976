"""What environments report to the agent and to the run's tables. All three know only these classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode."""

    env: int
    raw_return: float  # undiscounted, unclipped
    length: int  # decisions
    truncated: bool  # truncated, not terminated
    failed: bool = False  # truncated because its environment failed


@dataclass(frozen=True, slots=True)
class Restart:
    """An environment failed and was replaced by a new one."""

    env: int
    reason: str
    obs: NDArray[Any] | None  # first observation of the new episode, if a decision failed and was repeated there
    allowed: NDArray[np.bool_] | None = None  # (actions,) the mask there, if there are masks
    action: int | None = None  # the action that was taken there instead, if the mask forbids the one that failed


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one decision in each of N environments. The arrays are never modified later."""

    next_obs: NDArray[Any]  # (N, *obs) true successors: the final observation if an episode ended
    reward: NDArray[np.float64]  # (N,) as the environment returned it
    terminal: NDArray[np.bool_]  # (N,) no value beyond this transition, whether or not the episode ended
    truncated: NDArray[np.bool_]  # (N,) truncated, so `next_obs` still has value unless `terminal`
    ended: NDArray[np.bool_]  # (N,) the episode ended and `obs` is the first of the next one
    obs: NDArray[Any]  # (N, *obs) where to act next; the same array as `next_obs` if no episode ended
    episodes: tuple[Episode, ...]  # episodes that ended in this step
    restarts: tuple[Restart, ...] = ()  # they happened before everything else in this step
    next_allowed: NDArray[np.bool_] | None = None  # (N, actions) masks at `next_obs`, all true at a terminal one
    allowed: NDArray[np.bool_] | None = None  # (N, actions) masks at `obs`; None: all actions are always allowed
