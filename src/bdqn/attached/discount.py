"""Whether a trained network's own values speak against the discount that it is said to have been trained with.

At a fixed point Q(s, a) - r = gamma V(s') on average. Two regressions of the left on V(s') estimate gamma: one through
the origin, and one with a constant. While Q still grows towards its fixed point the first is too small, and the
second is noisy where values are alike. So only a gamma outside of what both say, with some room, is doubted. That one
is too small is known more surely than that it is too large.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bdqn.bayes.numerics import Array

ROOM = 0.05  # docs/attach.md has what it catches, and what it takes for wrong


class GammaWarning(UserWarning):
    """The network's values do not fit the discount that was given."""


def estimates(explained: Array, v_next: Array) -> tuple[float, float] | None:
    """gamma, through the origin and with a constant; None where values do not vary enough to tell."""
    centred = v_next - v_next.mean()
    if len(v_next) < 2 or not (centred @ centred) > 1e-6 * (v_next @ v_next):
        return None
    through_origin = float(v_next @ explained / (v_next @ v_next))
    return through_origin, float(centred @ explained / (centred @ centred))


def contradiction(gamma: float, explained: Array, v_next: Array, goes_on: NDArray[np.bool_]) -> str | None:
    """A sentence, if the transitions that do not end an episode speak against this discount."""
    found = estimates(explained[goes_on], v_next[goes_on])
    if found is None or min(found) - ROOM <= gamma <= max(found) + ROOM:
        return None
    origin, constant = found
    unless = ", or train it further: a value that still grows looks like that, too" if gamma > max(found) else ""
    return (
        f"gamma={gamma:g} does not fit the network's own values, whose one-step residuals are smallest at a gamma of "
        f"{origin:.3f} ({constant:.3f} beside a constant): pass the discount that it was trained with{unless}."
    )
