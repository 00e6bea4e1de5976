"""Counts of observations: each by itself (`exactly`), or together with those that hash to the same cell (`SimHash`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.config.observations import ObservationSpec
from bdqn.density.numbers import newest, unit_numbers
from bdqn.density.pseudo_counts import DensityModel, LogProbs

SMALL = 16  # numbers of an observation of whole numbers that is counted exactly

Key = Callable[[NDArray[Any]], bytes]


class CountTable:
    """How often each key was seen. As a density: N / (n + 1) for what was seen N times among n.

    The rest, 1 / (n + 1), belongs to what was never seen. So rho' > rho even if there was only one kind of observation,
    and the pseudo-count is N from the very first observation on.
    """

    def __init__(self, key: Key, width: int) -> None:
        """``width`` is the number of bytes of every key."""
        self._key, self._width = key, width
        self._counts: dict[bytes, int] = {}
        self._total = 0

    @property
    def size(self) -> int:
        """How many keys were seen."""
        return len(self._counts)

    def prob_then_update(self, obs: NDArray[Any]) -> LogProbs:
        """Count an observation; the logarithms of its shares before and after."""
        key = self._key(obs)
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        self._total += 1
        return _log_share(count, self._total), _log_share(count + 1, self._total + 1)

    def state(self) -> dict[str, NDArray[Any]]:
        """The keys, in the order in which they were first seen, and their counts."""
        keys = np.frombuffer(b"".join(self._counts), np.uint8).reshape(-1, self._width)
        return {"keys": keys, "counts": np.fromiter(self._counts.values(), np.int64, len(self._counts))}

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what ``state`` gave."""
        keys, counts = state["keys"], state["counts"]
        if keys.dtype != np.uint8 or counts.dtype != np.int64 or keys.shape != (*counts.shape, self._width):
            raise ValueError(f"counts of observations are {counts.dtype} {counts.shape} for keys {keys.shape}.")
        if (counts < 1).any():
            raise ValueError("a count of observations is below one.")
        self._counts = {key.tobytes(): count for key, count in zip(keys, counts.tolist(), strict=True)}
        self._total = sum(counts.tolist())


def _log_share(part: int, whole: int) -> float:
    """log(part / whole), to full precision also near 0, where it is that of a small difference."""
    if not part:
        return -math.inf
    return math.log(part / whole) if 2 * part < whole else math.log1p((part - whole) / whole)


class ExactKey:
    """A hash of an observation's bytes (of its newest frame's); two observations share it only if they are equal."""

    width = 16

    def __init__(self, spec: ObservationSpec) -> None:
        self._newest = newest(spec)

    def __call__(self, obs: NDArray[Any]) -> bytes:
        return blake2b(self._newest(obs).tobytes(), digest_size=self.width).digest()


class SimHash:
    """On which sides of random hyperplanes an observation lies (Tang et al., 2017): what is alike shares them."""

    def __init__(self, spec: ObservationSpec, bits: int, rng: np.random.Generator) -> None:
        self._numbers = unit_numbers(spec)
        self.width = -(-bits // 8)
        some = np.full(spec.shape, spec.first_category, spec.dtype)
        planes = rng.standard_normal((bits, 1 + len(self._numbers(some))))
        self._offset, self._normal = planes[:, 0].astype(np.float32), planes[:, 1:].astype(np.float32)

    def __call__(self, obs: NDArray[Any]) -> bytes:
        return np.packbits(self._normal @ self._numbers(obs) + self._offset > 0).tobytes()


def exact_counts(spec: ObservationSpec, rng: np.random.Generator) -> DensityModel:
    """Every observation counted by itself."""
    return CountTable(ExactKey(spec), ExactKey.width)


def hashed_counts(spec: ObservationSpec, rng: np.random.Generator, bits: int) -> DensityModel:
    """Observations counted by cells."""
    key = SimHash(spec, bits, rng)
    return CountTable(key, key.width)


def fitting_counts(spec: ObservationSpec, rng: np.random.Generator, bits: int) -> DensityModel:
    """Categories and a few whole numbers, which recur, are counted exactly; real numbers and images by cells."""
    return exact_counts(spec, rng) if _recurs(spec) else hashed_counts(spec, rng, bits)


def _recurs(spec: ObservationSpec) -> bool:
    if spec.leaves:
        return all(_recurs(leaf) for _, leaf in spec.leaves)
    discrete = bool(spec.categories or spec.counts)
    return discrete or (spec.dtype.kind in "biu" and math.prod(spec.shape) <= SMALL)
