"""The rules that turn Q-values, and how sure we are of them, into actions. NumPy only, no state.

Rows are environments or observations, columns are actions. ``allowed`` says which actions may be taken; None: all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Actions = NDArray[np.int64]
Allowed = NDArray[np.bool_] | None  # (rows, actions)


def only_allowed(q: Array, allowed: Allowed) -> Array:
    """Q, with minus infinity where an action may not be taken."""
    return q if allowed is None else np.where(allowed, q, -np.inf)


def greedy(q: Array, allowed: Allowed = None) -> Actions:
    """Take the best action; on an exact tie, the first."""
    return np.asarray(only_allowed(q, allowed).argmax(-1))


def uniform(rng: np.random.Generator, count: int, num_actions: int, allowed: Allowed = None) -> Actions:
    """Take any action."""
    actions = rng.integers(num_actions, size=count)
    if allowed is not None:
        # Those not allowed are drawn again, from the allowed ones: together, each of these is equally likely.
        for row in np.flatnonzero(~allowed[np.arange(count), actions]):
            actions[row] = rng.choice(np.flatnonzero(allowed[row]))
    return actions


def or_uniform(
    actions: Actions, where: NDArray[np.bool_], rng: np.random.Generator, num_actions: int, allowed: Allowed = None
) -> Actions:
    """These actions, but any action ``where`` chance is to decide."""
    return np.where(where, uniform(rng, len(actions), num_actions, allowed), actions) if where.any() else actions


def epsilon_greedy(q: Array, epsilon: float, rng: np.random.Generator, allowed: Allowed = None) -> Actions:
    """Take the best action, but with probability epsilon any action."""
    return or_uniform(greedy(q, allowed), rng.random(len(q)) < epsilon, rng, q.shape[-1], allowed)


def boltzmann(q: Array, temperature: float, rng: np.random.Generator, allowed: Allowed = None) -> Actions:
    """Draw from the softmax of q / temperature; at temperature 0 it is greedy."""
    # The best of Q plus Gumbel noise is a draw from the softmax of Q.
    return greedy(q + temperature * rng.gumbel(size=q.shape), allowed)


def upper_confidence(mean: Array, std: Array, scale: float, allowed: Allowed = None) -> Actions:
    """Act as if every action were as good as it plausibly might be (optimism)."""
    return greedy(mean + scale * std, allowed)


def linear_schedule(step: int, start: float, end: float, duration: int) -> float:
    """From ``start`` to ``end`` over ``duration`` steps, then ``end``."""
    return end if step >= duration else start + (end - start) * step / duration
