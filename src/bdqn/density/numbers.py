"""Observations as density models read them: numbers from 0 to 1, and grey pictures of a few levels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.config.observations import ObservationSpec

UNBOUNDED = 1e30  # a declared bound beyond this is none

Numbers = NDArray[np.float32]
Levels = NDArray[np.uint8]


def newest(spec: ObservationSpec) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Of a stack its newest frame: the others were seen before. Other observations as they are."""
    return (lambda obs: obs[-1]) if spec.stack else np.asarray


def unit_numbers(spec: ObservationSpec) -> Callable[[NDArray[Any]], Numbers]:
    """An observation (*obs) as numbers from 0 to 1, in a row: one-hot for categories, those of a record in turn."""
    if spec.leaves:
        parts = [(_bytes_of(leaf), leaf, unit_numbers(leaf)) for _, leaf in spec.leaves]
        return lambda record: np.concatenate(
            [part(record[where].view(leaf.dtype).reshape(leaf.shape)) for where, leaf, part in parts]
        )
    if spec.categories:
        return _one_hot(np.array([spec.first_category]), [spec.categories])
    if spec.counts:
        return _one_hot(np.zeros(len(spec.counts), np.int64), list(spec.counts))
    scaled = _scaled(spec)
    return lambda obs: scaled(obs).ravel()


def grey_picture(spec: ObservationSpec, side: int, levels: int) -> Callable[[NDArray[Any]], Levels]:
    """An image as a picture of at most ``side`` x ``side`` grey pixels; anything else as one row of pixels.

    Pixels are means of blocks. Channels that show different things become shades of one picture.
    """
    if not spec.is_image or spec.leaves:
        numbers = unit_numbers(spec)
        return lambda obs: _quantised(numbers(obs)[None], levels)
    scaled, height, width = _scaled(spec), *spec.sides
    rows, columns = (np.arange(0, length, -(-length // side)) for length in (height, width))
    pixels = np.diff(rows, append=height)[:, None] * np.diff(columns, append=width)
    plain = spec.stack or spec.channels == 1

    def picture(obs: NDArray[Any]) -> Levels:
        image = scaled(obs)
        grey = image.reshape(height, width) if plain else _shaded(image, spec.channels_last)
        if pixels.size < grey.size:
            grey = np.add.reduceat(np.add.reduceat(grey, rows, axis=0), columns, axis=1) / pixels
        return _quantised(grey, levels)

    return picture


def _quantised(grey: Numbers, levels: int) -> Levels:
    return np.minimum(grey * levels, levels - 1).astype(np.uint8)


def _shaded(image: Numbers, channels_last: bool) -> Numbers:
    """The lightest of the channels, of which each next one is lighter."""
    planes = image if channels_last else np.moveaxis(image, 0, -1)
    lightest: Numbers = (planes * (np.arange(1, planes.shape[-1] + 1, dtype=np.float32) / planes.shape[-1])).max(-1)
    return lightest


def _bytes_of(leaf: ObservationSpec) -> slice:
    """Where a leaf stands in a record."""
    assert leaf.start is not None
    return slice(leaf.start, leaf.start + math.prod(leaf.shape) * leaf.dtype.itemsize)


def _one_hot(first: NDArray[np.int64], counts: list[int]) -> Callable[[NDArray[Any]], Numbers]:
    places = np.cumsum([0, *counts[:-1]]) - first
    width = sum(counts)

    def numbers(obs: NDArray[Any]) -> Numbers:
        row = np.zeros(width, np.float32)
        row[np.ravel(obs).astype(np.int64) + places] = 1
        return row

    return numbers


def _scaled(spec: ObservationSpec) -> Callable[[NDArray[Any]], Numbers]:
    """Between declared bounds in proportion; x / (1 + |x|), moved to 0 to 1, where there are none."""
    frame = newest(spec)
    low, high = _bounds(spec)
    bounded = (np.abs(low) < UNBOUNDED) & (np.abs(high) < UNBOUNDED) & (high > low)
    low, span = np.where(bounded, low, 0).astype(np.float32), np.where(bounded, high - low, 1).astype(np.float32)

    def between(obs: NDArray[Any]) -> Numbers:
        shares: Numbers = np.clip((frame(obs) - low) / span, 0, 1).astype(np.float32)
        return shares

    def anywhere(obs: NDArray[Any]) -> Numbers:
        x = frame(obs).astype(np.float32)
        return np.where(bounded, between(obs), 0.5 + 0.5 * x / (1 + np.abs(x))).astype(np.float32)

    return between if bounded.all() else anywhere


def _bounds(spec: ObservationSpec) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Declared bounds of a frame; those of bytes where none are declared."""
    if spec.low is None or spec.high is None:
        largest = {"b": 1.0, "u": 255.0}.get(spec.dtype.kind, math.inf)
        return np.float64(0), np.float64(largest)  # type: ignore[return-value]
    low, high = spec.low.astype(np.float64), spec.high.astype(np.float64)
    return (low[-1], high[-1]) if spec.stack else (low, high)
