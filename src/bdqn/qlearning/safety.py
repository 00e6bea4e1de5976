"""How safe an action is, from the mean and a spread of its value: higher is safer. (The paper's safety section.)"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from scipy.special import ndtri

from bdqn.config.settings import SettingError, nearest
from bdqn.qlearning.q_posterior import QPosterior
from bdqn.qlearning.rules import Array


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


def degree_of_safety(q: QPosterior, criterion: str, spread: str, parameters: Mapping[str, float]) -> Array:
    """How safe every action is by a criterion and one of the two spreads, both checked."""
    if criterion not in SAFETY_CRITERIA:
        raise SettingError(f"Unknown criterion {criterion!r}; {nearest(criterion, SAFETY_CRITERIA)}")
    if spread not in ("epistemic", "predictive"):
        raise SettingError(f"spread must be epistemic or predictive, not {spread!r}.")
    check_parameters(criterion, parameters)
    return SAFETY_CRITERIA[criterion](q.mean, q.std if spread == "epistemic" else q.predictive_std, **parameters)
