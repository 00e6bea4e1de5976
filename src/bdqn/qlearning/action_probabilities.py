"""How probably each rule takes each action. NumPy only."""

from __future__ import annotations

import numpy as np

from bdqn.qlearning.rules import Actions, Allowed, Array, greedy


def epsilon_greedy_probabilities(q: Array, epsilon: float) -> Array:
    """Epsilon spread over all actions, and the rest on the best."""
    return np.asarray(epsilon / q.shape[-1] + (1 - epsilon) * _all_on(greedy(q), q))


def boltzmann_probabilities(q: Array, temperature: float) -> Array:
    """The softmax of q / temperature; at temperature 0, all on the best action."""
    if temperature == 0:
        return _all_on(greedy(q), q)
    weights = np.exp((q - q.max(-1, keepdims=True)) / temperature)  # the best has weight 1: nothing overflows
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def thompson_probabilities(mean: Array, std: Array, rng: np.random.Generator, samples: int = 100_000) -> Array:
    """How probably a draw of each action's Gaussian value is the largest; the values are independent."""
    return optimal_action_probabilities(mean + std * rng.standard_normal((samples, *mean.shape)))


def _all_on(actions: Actions, q: Array) -> Array:
    return np.asarray(np.arange(q.shape[-1]) == actions[..., None], float)


def optimal_action_probabilities(draws: Array, allowed: Allowed = None) -> Array:
    """Share of posterior draws (draws, ..., actions) in which each action is the best allowed one. (..., actions)"""
    best = greedy(draws, allowed)  # (draws, ...)
    return np.stack([(best == action).mean(0) for action in range(draws.shape[-1])], axis=-1)
