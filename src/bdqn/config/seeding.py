"""One seed, many generators. Each is derived by name, so adding one never changes the others."""

from __future__ import annotations

import numpy as np


def generator(seed: int, name: str) -> np.random.Generator:
    """Return the generator ``name`` derived from this seed."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, name)))


def integer_seed(seed: int, name: str) -> int:
    """Return the 31-bit seed ``name`` derived from this seed, for libraries that take an integer."""
    return int(_sequence(seed, name).generate_state(1)[0] >> 1)


def _sequence(seed: int, name: str) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=tuple(name.encode()))
