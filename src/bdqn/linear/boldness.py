"""Boldness: how many times wider than the posterior each episode's draws are, by what that has returned lately.

The rule of ``bdqn.qlearning.boldness``, for any number of inflations: while their records tell none of them apart, the
largest acts, for bold draws explore better and cost nothing. After that the one with the best record acts, but episode
n goes to one of the others with probability n^(-1/2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bdqn.linear.draws import Draws
from bdqn.linear.mdps import Array, Indices

KEPT = 0.9  # of a record, at each new episode: the agent learns, so old episodes count little
DECAY = 0.5  # of the share of episodes that go to the others
SAME = 1e-9  # records closer than this share of the largest differ only by rounding


class Boldness:
    """Which of K inflations acts in each of R replicas. With one inflation, no random number is used."""

    def __init__(self, inflations: Sequence[float], replicas: int) -> None:
        self._inflations = np.sort(np.asarray(inflations, np.float64))
        count = len(self._inflations)
        self.kinds: Indices = np.full(replicas, count - 1)
        self._told_apart = np.zeros(replicas, np.int64)  # episodes since records first differed
        self._total, self._weight = np.zeros((2, replicas, count))

    @property
    def inflation(self) -> Array:
        """The one that acts. (R,)"""
        return np.asarray(self._inflations[self.kinds])

    @property
    def records(self) -> Array:
        """The mean return of recent episodes with each inflation; NaN before the first. (R, K)"""
        return np.where(self._weight > 0, self._total / np.maximum(self._weight, 1e-300), np.nan)

    def add(self, returns: Array) -> None:
        """Add the returns (R,) of an episode to the records of those that acted in it."""
        acted = np.eye(len(self._inflations), dtype=bool)[self.kinds]
        self._total = np.where(acted, KEPT * self._total + returns[:, None], self._total)
        self._weight = np.where(acted, KEPT * self._weight + 1, self._weight)

    def choose(self, draws: Draws) -> None:
        """Choose who acts in the next episode."""
        count = len(self._inflations)
        if count == 1:
            return
        records = np.nan_to_num(self.records)
        best = records.argmax(1)
        tried = (self._weight > 0).all(1)
        differ = np.ptp(records, axis=1) > SAME * np.abs(records).max(1)
        self._told_apart += tried & differ
        share = np.minimum((count - 1) / count, np.maximum(self._told_apart, 1) ** -DECAY)  # (R,)
        uniform = draws.uniform(1)[:, 0]
        another = (best + 1 + (uniform / share * (count - 1)).astype(np.int64)) % count
        by_record = np.where(uniform < share, another, best)
        untried = count - 1 - np.argmin(self._weight[:, ::-1], axis=1)  # the boldest of the least tried
        self.kinds = np.where(~tried, untried, np.where(differ, by_record, count - 1))
