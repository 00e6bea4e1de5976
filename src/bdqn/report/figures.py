"""Figures, drawn from run directories and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from bdqn.report.load import Array, Run

# Okabe and Ito's palette: told apart by colour-blind readers too.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def learning_curve(run: Run, grid: Array, window: int = 20) -> Array:
    """Mean raw return of the last ``window`` episodes at each point of the grid; NaN before the first episode ends."""
    total = np.concatenate([[0.0], np.cumsum(run.raw_return)])
    ended = np.searchsorted(run.step, grid, side="right")
    first = np.maximum(ended - window, 0)
    with np.errstate(invalid="ignore"):
        return np.asarray((total[ended] - total[first]) / (ended - first))


def draw_learning_curves(axes: Axes, runs: Mapping[str, Sequence[Run]], steps: int, window: int = 20) -> None:
    """Each agent's mean over seeds, with every seed as a thin line: few seeds are better shown than summarised."""
    grid = np.linspace(0, steps, 200)
    for color, (name, seeds) in zip(COLORS, runs.items(), strict=False):
        curves = np.array([learning_curve(run, grid, window) for run in seeds])
        axes.plot(grid, curves.T, color=color, alpha=0.3, linewidth=0.8)
        known = np.isfinite(curves).any(0)
        axes.plot(grid[known], np.nanmean(curves[:, known], axis=0), color=color, linewidth=2, label=name)
    axes.set_xlabel("decisions")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 100k, not 100000
    axes.set_ylabel(f"return, mean of {window} episodes")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def draw_band(axes: Axes, step: Array, values: Array, color: str, label: str, rng: np.random.Generator) -> None:
    """The mean of curves (seeds, points), with a band of 95 % over seeds."""
    known = np.isfinite(values).all(0)
    step, values = step[known], values[:, known]
    rows = rng.integers(len(values), size=(1_000, len(values)))
    low, high = np.percentile(values[rows].mean(1), [2.5, 97.5], axis=0)
    axes.plot(step, values.mean(0), color=color, label=label)
    axes.fill_between(step, low, high, color=color, alpha=0.2, linewidth=0)


def draw_posterior(axes: Axes, x: Array, mean: Array, std: Array, actions: Sequence[str], xlabel: str) -> None:
    """Q of every action along a line of states: posterior mean, and a band of two standard deviations."""
    for color, name, centre, spread in zip(COLORS, actions, mean.T, std.T, strict=False):
        axes.fill_between(x, centre - 2 * spread, centre + 2 * spread, color=color, alpha=0.2, linewidth=0)
        axes.plot(x, centre, color=color, label=name)
    axes.set_xlabel(xlabel)
    axes.set_ylabel("Q: mean ± 2 std")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")
