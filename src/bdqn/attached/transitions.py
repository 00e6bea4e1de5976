"""Transitions as plain arrays, in the order in which they happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdqn.config.settings import SettingError

NAMES = ("obs", "action", "reward", "next_obs", "terminal")


@dataclass(frozen=True, eq=False)
class Transitions:
    """One row per decision; rows of one episode follow one another."""

    obs: NDArray[Any]  # (n, *obs)
    action: NDArray[np.int64]  # (n,) counted from zero
    reward: NDArray[np.float64]  # (n,)
    next_obs: NDArray[Any]  # (n, *obs) true successors: an episode's last observation, not the next one's first
    terminal: NDArray[np.bool_]  # (n,) terminated; not: truncated by a time limit

    def __len__(self) -> int:
        return len(self.action)

    def check(self, num_actions: int) -> None:
        """Refuse actions that the network has no value of."""
        outside = (self.action < 0) | (self.action >= num_actions)
        if outside.any():
            raise ValueError(
                f"The transitions hold action {int(self.action[outside][0])}, but the network has Q-values of "
                f"{num_actions} actions, 0 to {num_actions - 1}."
            )

    @classmethod
    def of_arrays(
        cls, obs: ArrayLike, action: ArrayLike, reward: ArrayLike, next_obs: ArrayLike, terminal: ArrayLike
    ) -> Transitions:
        """From arrays of anybody's, whose shapes must fit together."""
        seen, following = np.asarray(obs), np.asarray(next_obs)
        rows = len(seen) if seen.ndim else 0
        if following.shape != seen.shape:
            raise ValueError(f"obs and next_obs must have the same shape, not {seen.shape} and {following.shape}.")
        columns = {"action": np.asarray(action), "reward": np.asarray(reward), "terminal": np.asarray(terminal)}
        for name, column in columns.items():
            if column.shape not in ((rows,), (rows, 1)):
                raise ValueError(f"{name} must have shape ({rows},), one for each row of obs, not {column.shape}.")
        actions = columns["action"].reshape(rows)
        if (actions != actions.astype(np.int64)).any():
            raise ValueError("action must hold whole numbers: a posterior over Q needs discrete actions.")
        return cls(
            seen,
            actions.astype(np.int64),
            columns["reward"].reshape(rows).astype(np.float64),
            following,
            columns["terminal"].reshape(rows).astype(np.bool_),
        )

    @classmethod
    def joined(cls, parts: Iterable[Transitions]) -> Transitions:
        """Several, one after the other."""
        every = list(parts)
        if not every:
            raise SettingError("There are no transitions: the data set or the buffer is empty.")
        return cls(*(np.concatenate([getattr(part, name) for part in every]) for name in NAMES))
