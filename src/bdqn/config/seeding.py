"""One seed, many generators: each is derived by name, so that adding one never changes the others."""

from __future__ import annotations

import numpy as np


def generator(seed: int, name: str) -> np.random.Generator:
    """The generator called ``name`` of this seed."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, name)))


def integer_seed(seed: int, name: str) -> int:
    """A 31-bit seed called ``name``, for libraries that want a number."""
    return int(_sequence(seed, name).generate_state(1)[0] >> 1)


def _sequence(seed: int, name: str) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=tuple(name.encode()))
