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

    A sum that a time limit ``cut`` short goes on as it was, for ever: bootstrapping looks past the limit, too.
    """
    returns = discounted_returns(reward, last, gamma)
    ends = np.flatnonzero(last)
    begins = np.append(0, ends[:-1] + 1) if len(ends) else ends
    begins, ends = begins[cut[ends]], ends[cut[ends]]
    if gamma < 1:
        returns = np.append(returns, returns[begins] / (1 - gamma ** (ends + 1 - begins)))
    return float(returns.min(initial=0.0)), float(returns.max(initial=0.0))
