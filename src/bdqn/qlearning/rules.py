"""The rules that turn Q-values, and how sure we are of them, into actions. NumPy only, no state.

Rows are environments or observations, columns are actions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

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


# How probably each action is taken.


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


def optimal_action_probabilities(draws: Array) -> Array:
    """Share of posterior draws (draws, ..., actions) in which each action is the best. (..., actions)"""
    best = draws.argmax(-1)  # (draws, ...)
    return np.stack([(best == action).mean(0) for action in range(draws.shape[-1])], axis=-1)


# How safe an action is, from the mean and a spread of its value: higher is safer. (The paper's safety section.)


def lower_confidence_bound(mean: Array, std: Array, *, scale: float = 1.645) -> Array:
    """The value that the action exceeds with 95 % probability, at the default scale."""
    return mean - scale * std


def margin_above(mean: Array, std: Array, *, threshold: float) -> Array:
    """Standard deviations between the mean and ``threshold``: ranks actions by the probability of exceeding it.

    The probability itself rounds to 0 or 1 far from the threshold, where it would no longer tell actions apart.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = (mean - threshold) / std
    certain = np.where(mean >= threshold, np.inf, -np.inf)
    return np.asarray(np.where(std > 0, margin, certain))


def conditional_value_at_risk(mean: Array, std: Array, *, alpha: float = 0.05) -> Array:
    """The mean value over the worst ``alpha`` of outcomes of a Gaussian."""
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha must lie in (0, 1], not {alpha!r}.")
    density = np.exp(-(ndtri(alpha) ** 2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(mean - std * (density / alpha))


SAFETY_CRITERIA: dict[str, Callable[..., Array]] = {
    "lcb": lower_confidence_bound,
    "probability": margin_above,
    "cvar": conditional_value_at_risk,
}


def check_parameters(criterion: str, given: Iterable[str]) -> None:
    """Refuse what a safety criterion does not know, and ask for what it cannot do without."""
    parameters = inspect.signature(SAFETY_CRITERIA[criterion]).parameters.values()
    known = {one.name: one.default is one.empty for one in parameters if one.kind is one.KEYWORD_ONLY}
    for name in given:
        if name not in known:
            raise ValueError(f"criterion {criterion!r} takes {' and '.join(known)}, not {name!r}.")
    for name, needed in known.items():
        if needed and name not in given:
            raise ValueError(f"criterion {criterion!r} needs {name}=..., in the unit of the environment's returns.")
