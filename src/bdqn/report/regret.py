"""Regret of linear agents as a table and a figure, with certificates, bounds and the growth in T."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from bdqn.linear.regret import growth_exponent
from bdqn.report.figures import COLORS, draw_mean, name_axes
from bdqn.report.load import Array
from bdqn.storage import atomic

COLUMNS = ("agent", "seed", "episode", "regret", "trajectory_regret", "certificate", "bound")
CERTIFICATE, BOUND, TRIVIAL = "--", "-.", ":"  # line styles


@dataclass(frozen=True)
class RegretCurves:
    """One agent's cumulative regret at some episodes; NaN if it has no certificate or bound."""

    agent: str
    seeds: tuple[int, ...]
    episode: Array  # (points,)
    regret: Array  # (seeds, points) exact
    trajectory_regret: Array  # (seeds, points)
    certificate: Array  # (seeds, points)
    bound: Array  # (seeds, points) Theorem 2, corrected; for LinPSRL Theorem 1, as a reference

    @cached_property
    def growth(self) -> Growth:
        """Fitted once, so that tables and figures show the same numbers."""
        return growth(self.episode, self.regret, np.random.default_rng(0))


class Growth(NamedTuple):
    """The exponent of regret in T, with a 95 % interval over seeds."""

    exponent: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"T^{self.exponent:.2f} ({self.low:.2f} to {self.high:.2f})"


def grid_of(episodes: int, points: int = 100) -> NDArray[np.int64]:
    """Episodes to store: evenly spaced, more densely at the beginning, and always the last."""
    spaced = np.concatenate([np.geomspace(1, episodes, points // 2), np.linspace(1, episodes, points // 2)])
    return np.unique(spaced.round().astype(np.int64))


def growth(episode: NDArray[np.int64] | Array, regret: Array, rng: np.random.Generator, samples: int = 1000) -> Growth:
    """Fit the exponent of mean regret (seeds, points) to the last nine tenths of the episodes; resample seeds."""
    late = episode >= episode[-1] / 10
    # Evenly spaced in log T; otherwise the many late points outweigh the early ones.
    grid = np.geomspace(episode[late][0], episode[-1], 30)
    curves = np.array([np.interp(grid, episode, curve) for curve in regret])
    rows = rng.integers(len(curves), size=(samples, len(curves)))
    low, high = np.percentile(growth_exponent(grid, curves[rows].mean(1)), [2.5, 97.5])
    return Growth(float(growth_exponent(grid, curves.mean(0))), float(low), float(high))


def write_regret(path: Path, curves: Iterable[RegretCurves]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for curve in curves:
        for row, seed in enumerate(curve.seeds):
            values = np.stack([getattr(curve, name)[row] for name in COLUMNS[3:]], axis=1)
            for episode, cells in zip(curve.episode, values, strict=True):
                shown = ("" if np.isnan(cell) else f"{cell:.5g}" for cell in cells)
                writer.writerow((curve.agent, seed, f"{episode:.0f}", *shown))
    atomic.write_file(path, text.getvalue().encode())


def read_regret(path: Path) -> list[RegretCurves]:
    """Read a file that ``write_regret`` wrote."""
    points: dict[str, dict[int, list[list[float]]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            cells = [float(row[name] or "nan") for name in COLUMNS[2:]]
            points.setdefault(row["agent"], {}).setdefault(int(row["seed"]), []).append(cells)
    curves = []
    for agent, seeds in points.items():
        table = np.array(list(seeds.values()))  # (seeds, points, columns)
        curves.append(RegretCurves(agent, tuple(seeds), table[0, :, 0], *np.moveaxis(table[..., 1:], -1, 0)))
    return curves


def regret_figure(curves: Sequence[RegretCurves], title: str, rng: np.random.Generator) -> Figure:
    """Regret on linear axes, and with certificates and bounds on logarithmic axes."""
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    linear, logarithmic = figure.subplots(1, 2)
    for i, curve in enumerate(curves):
        color = COLORS[i % len(COLORS)]
        for axes in (linear, logarithmic):
            draw_mean(axes, curve.episode, curve.regret, i, f"{curve.agent}: {curve.growth}", rng)
        logarithmic.plot(curve.episode, curve.certificate.mean(0), color=color, linestyle=CERTIFICATE)
        # Not learning costs T. A bound far above that would only compress the axis.
        bound = curve.bound.mean(0)
        bound[~(bound <= 100 * curve.episode)] = np.nan
        logarithmic.plot(curve.episode, bound, color=color, linestyle=BOUND)
    logarithmic.plot(curves[0].episode, curves[0].episode, color="0.6", linestyle=TRIVIAL)
    logarithmic.set_xscale("log")
    logarithmic.set_yscale("log")
    linear.xaxis.set_major_formatter(EngFormatter(sep=""))
    styles = {"regret": "-", "certificate": CERTIFICATE, "bound, up to 100 T": BOUND, "T": TRIVIAL}
    lines = [logarithmic.plot([], [], style, color="0.4", label=name)[0] for name, style in styles.items()]
    logarithmic.legend(handles=lines, frameon=False, loc="best", fontsize=8)
    linear.legend(frameon=False, loc="best", fontsize=8)
    for axes in (linear, logarithmic):
        name_axes(axes, "episodes, T", "cumulative regret")
    figure.suptitle(title)
    return figure
