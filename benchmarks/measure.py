"""Timing for all benchmarks: contestants are interleaved and compared within a round.

Machines are noisy, and slow down for minutes at a time. Whoever is measured alone is compared with another minute;
whoever takes turns is compared with the same seconds, so the median of the rounds' ratios is the figure to read.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def seconds(job: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def interleaved(jobs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each job in each round. Before the first round, each job is called once to warm up."""
    for job in jobs.values():
        job()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds):
        # Alternate the order, so that a slowdown in mid-round does not always hit the same job.
        names = list(jobs) if number % 2 == 0 else list(reversed(jobs))
        for name in names:
            times[name].append(seconds(jobs[name]))
    return times


@dataclass(frozen=True)
class Spread:
    """A quantity measured in several rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{_figure(self.median)} ({_figure(self.low)} to {_figure(self.high)})"


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Spread:
    """The ratio of two measurements, round by round."""
    return Spread.of([a / b for a, b in zip(numerator, denominator, strict=True)])


def exponent(sizes: list[int], times: list[float]) -> float:
    """The exponent of time in size, over the larger half of the sizes."""
    half = len(sizes) // 2
    slope, _ = np.polyfit(np.log(sizes[half:]), np.log(times[half:]), 1)
    return float(slope)


def write_rows(name: str, rows: Sequence[Mapping[str, Any]], folder: Path = RESULTS) -> None:
    """Store raw measurements; all tables and plots are made from these files."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(name: str, folder: Path = RESULTS) -> list[dict[str, str]]:
    with open(folder / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
