"""The rules that turn Q-values, and how sure we are of them, into actions. NumPy only, no state.

Rows are environments or observations, columns are actions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Actions = NDArray[np.int64]


def greedy(q: Array) -> Actions:
    """Take the best action; on an exact tie, the first."""
    return np.asarray(q.argmax(-1))


def uniform(rng: np.random.Generator, count: int, num_actions: int) -> Actions:
    """Take any action."""
    return rng.integers(num_actions, size=count)


def epsilon_greedy(q: Array, epsilon: float, rng: np.random.Generator) -> Actions:
    """Take the best action, but with probability epsilon any action."""
    actions = greedy(q)
    explore = rng.random(len(q)) < epsilon
    return np.where(explore, rng.integers(q.shape[-1], size=len(q)), actions) if explore.any() else actions


def boltzmann(q: Array, temperature: float, rng: np.random.Generator) -> Actions:
    """Draw from the softmax of q / temperature; at temperature 0 it is greedy."""
    # The best of Q plus Gumbel noise is a draw from the softmax of Q.
    return greedy(q + temperature * rng.gumbel(size=q.shape))


def upper_confidence(mean: Array, std: Array, scale: float) -> Actions:
    """Act as if every action were as good as it plausibly might be (optimism)."""
    return greedy(mean + scale * std)


def linear_schedule(step: int, start: float, end: float, duration: int) -> float:
    """From ``start`` to ``end`` over ``duration`` steps, then ``end``."""
    return end if step >= duration else start + (end - start) * step / duration
