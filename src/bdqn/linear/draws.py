"""Random numbers for many replicas. Each replica has its own generator and does not depend on the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bdqn.config.seeding import generator
from bdqn.linear.mdps import Array, Indices


class Draws:
    """One generator per replica, drawn from together."""

    def __init__(self, seeds: Sequence[int], name: str) -> None:
        self._generators = [generator(seed, name) for seed in seeds]

    def uniform(self, *shape: int) -> Array:
        """Numbers in [0, 1). (R, *shape)"""
        numbers = np.empty((len(self._generators), *shape))
        for rng, out in zip(self._generators, numbers, strict=True):
            rng.random(out=out)
        return numbers

    def normal(self, *shape: int) -> Array:
        """Standard normal numbers. (R, *shape)"""
        numbers = np.empty((len(self._generators), *shape))
        for rng, out in zip(self._generators, numbers, strict=True):
            rng.standard_normal(out=out)
        return numbers

    def dirichlet(self, counts: Array) -> Array:
        """Probabilities along the last axis, from Dirichlet distributions with these parameters (R, ...)."""
        gammas = np.stack([rng.standard_gamma(c) for rng, c in zip(self._generators, counts, strict=True)])
        gammas += np.finfo(np.float64).tiny  # parameters far below 1 can give only zeros
        return np.asarray(gammas / gammas.sum(-1, keepdims=True))


def choose(probabilities: Array, uniform: Array) -> Indices:
    """The outcome for a number in [0, 1), by the inverse distribution function. (...)"""
    return choose_cumulative(probabilities.cumsum(-1), uniform)


def choose_cumulative(cumulative: Array, uniform: Array) -> Indices:
    """The same from cumulative probabilities; the last is assumed to be one."""
    return np.asarray((uniform[..., None] >= cumulative[..., :-1]).sum(-1))
