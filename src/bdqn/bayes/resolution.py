"""How fine a Gaussian kernel should be: as fine as it is given, or coarser where observations hardly recur."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from bdqn.bayes.numerics import Array

DOUBLINGS = 8  # at most
KNOWN = 0.1  # share of the prior variance that is left where an observation counts as known
JITTER = 1e-3


def resolution(seen: Array, recent: Array, finest: float) -> tuple[float, float]:
    """The finest lengthscale at which ``seen`` observations (n, d) make ``recent`` ones known, and their novelty then.

    Novelty is the mean share of a Gaussian process's prior variance that is left. The lengthscale never falls below
    ``finest``: at first, the little that has been seen would look like the whole world.
    """
    centre = seen.mean(0)
    # Around their centre, float32 is exact enough for distances to within a millionth of the widest.
    seen, recent = ((each - centre).astype(np.float32) for each in (seen, recent))
    among, across = _squared_distances(seen, seen), _squared_distances(recent, seen)
    for doublings in range(DOUBLINGS + 1):
        lengthscale = finest * 2**doublings
        novelty = _novelty(among / lengthscale**2, across / lengthscale**2)
        if novelty <= KNOWN:
            break
    return lengthscale, novelty


def _squared_distances(a: Array, b: Array) -> Array:
    """By products: far faster than one by one where observations are images."""
    return np.asarray(np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T, 0.0), np.float64)


def _novelty(among: Array, across: Array) -> float:
    factor = np.linalg.cholesky(np.exp(-among / 2) + JITTER * np.eye(len(among)))
    half = solve_triangular(factor, np.exp(-across / 2).T, lower=True, check_finite=False)
    return float(np.mean(1 - (half**2).sum(0)))
