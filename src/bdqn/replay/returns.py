"""Discounted returns of the rewards in a replay buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def discounted_returns(reward: NDArray[np.floating[Any]], last: NDArray[np.bool_], gamma: float) -> NDArray[np.float64]:
    """What rewards add up to from each one on (n,), up to the next one that is the ``last`` of its sum.

    Sums of two, four, eight, ... rewards, each from two shorter ones.
    """
    total = reward.astype(np.float64)
    weight = np.where(last, 0.0, gamma)  # of what comes behind the rewards that are summed up already
    weight[-1:] = 0.0
    length = 1
    while length < len(total) and weight.any():
        total[:-length] += weight[:-length] * total[length:].copy()
        weight[:-length] *= weight[length:].copy()
        weight[-length:] = 0.0
        length *= 2
    return total


def return_range(
    reward: NDArray[np.floating[Any]], last: NDArray[np.bool_], cut: NDArray[np.bool_], gamma: float
) -> tuple[float, float]:
    """The least and the largest return, zero among them.

    A sum that a time limit ``cut`` short goes on as it was, for ever: bootstrapping looks past the limit, too. As it
    was from its beginning, or from any later reward of its first half: the way to where it pays is gone only once.
    """
    returns = discounted_returns(reward, last, gamma)
    if gamma < 1 and cut.any():
        ends = np.flatnonzero(last)
        places = np.arange(ends[-1] + 1)
        sums = np.searchsorted(ends, places)  # which sum each reward belongs to
        begin, end = np.append(0, ends[:-1] + 1)[sums], ends[sums]
        goes_on = cut[end] & (places - begin <= end - places)
        for_ever = returns[places[goes_on]] / (1 - gamma ** (end - places + 1)[goes_on])
        returns = np.append(returns, for_ever)
    return float(returns.min(initial=0.0)), float(returns.max(initial=0.0))
