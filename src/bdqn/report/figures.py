"""Figures for files and papers, drawn with matplotlib. Pages have their own charts: ``bdqn.report.charts``."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from bdqn.report import stats
from bdqn.report.load import WINDOW, Array, Run, learning_curve
from bdqn.storage import atomic

if TYPE_CHECKING:
    from bdqn.report.compare import Result

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# For lines beyond the palette. Figures of regret use other dashes for certificates and bounds.
DASHES: tuple[Any, ...] = ("-", (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)))
FORMATS = ("png", "pdf", "svg")
TIMELESS: Mapping[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}  # PNG has no time

Points = Mapping[str, tuple[float, float, float]]  # a setting's value -> a score and the ends of its interval


def look(place: int) -> dict[str, Any]:
    """Colour and dashes of a figure's line. After the last colour, colours repeat with other dashes."""
    again, color = divmod(place, len(COLORS))
    return {"color": COLORS[color], "linestyle": DASHES[again % len(DASHES)]}


def draw_learning_curves(axes: Axes, runs: Mapping[str, Sequence[Run]], steps: int, window: int = 20) -> None:
    """Each agent's mean over seeds, with every seed as a thin line: few seeds are better shown than summarised."""
    grid = np.linspace(0, steps, 200)
    for i, (name, seeds) in enumerate(runs.items()):
        curves = np.array([learning_curve(run, grid, window) for run in seeds])
        axes.plot(grid, curves.T, **look(i), alpha=0.3, linewidth=0.8)
        known = np.isfinite(curves).any(0)
        axes.plot(grid[known], np.nanmean(curves[:, known], axis=0), **look(i), linewidth=2, label=name)
    _name_axes_of_curves(axes, window)
    _legend(axes)


def _name_axes_of_curves(axes: Axes, window: int) -> None:
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 100k, not 100000
    name_axes(axes, "decisions", f"return, mean of {window} episodes")


def label(axes: Axes, xlabel: str, ylabel: str) -> None:
    """Name the axes of a panel and add its legend."""
    name_axes(axes, xlabel, ylabel)
    _legend(axes)


def name_axes(axes: Axes, xlabel: str = "", ylabel: str = "") -> None:
    """Name the axes of a panel and draw only those: no line at the top or on the right."""
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(axes: Axes) -> None:
    if len(axes.get_legend_handles_labels()[0]) > len(COLORS):  # inside it would hide the lines
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    else:
        axes.legend(frameon=False, loc="best")  # explicit: the default warns on a busy machine


def draw_posterior(axes: Axes, x: Array, mean: Array, std: Array, actions: Sequence[str], xlabel: str) -> None:
    """Q of every action along a line of states: the posterior mean and a band of two standard deviations."""
    for i, (name, centre, spread) in enumerate(zip(actions, mean.T, std.T, strict=True)):
        axes.fill_between(x, centre - 2 * spread, centre + 2 * spread, color=look(i)["color"], alpha=0.2, linewidth=0)
        axes.plot(x, centre, **look(i), label=name)
    label(axes, xlabel, "Q: mean ± 2 std")


# --- comparisons ------------------------------------------------------------------------------------------------


def curves_figure(results: Sequence[Result], rng: np.random.Generator, level: float = 0.95) -> Figure:
    """Mean learning curve of each group with a band over seeds, in a panel per environment."""
    envs, groups = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("env", "group"))
    figure = Figure(layout="constrained")
    for axes, env in _panels(figure, envs):
        for i, group in enumerate(groups):
            mine = [result for result in results if (result.env, result.group) == (env, group)]
            if mine:
                curves = np.array([result.curve for result in mine])
                draw_mean(axes, mine[0].step, curves, i, f"{group} ({_seeds(results, group)})", rng, level)
        _name_axes_of_curves(axes, WINDOW)
    _common_legend(figure)
    return figure


def _seeds(results: Sequence[Result], group: str) -> str:
    """How many seeds a group has over all environments."""
    counts = Counter(result.env for result in results if result.group == group).values()
    least, most = min(counts), max(counts)
    return f"{most} seed{'s' * (most > 1)}" if least == most else f"{least} to {most} seeds"


def profiles_figure(
    scores: Mapping[str, Mapping[str, stats.SeedScores]], baseline: str, rng: np.random.Generator, level: float = 0.95
) -> Figure:
    """Fraction of each group's runs above each score, in units of the baseline's mean; a panel per kind of score."""
    figure = Figure(layout="constrained")
    for axes, kind in _panels(figure, list(scores)):
        values = [value for mine in scores[kind].values() for seeds in mine.values() for value in seeds.values()]
        grid = np.linspace(min(0.0, *values), 1.05 * max(values), 200)
        profile = partial(stats.performance_profile, thresholds=grid)
        for i, (group, mine) in enumerate(scores[kind].items()):
            arrays = stats.by_environment(mine)
            _draw_band(axes, grid, profile(arrays), stats.bootstrap(profile, arrays, rng, level=level), i, group)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        name_axes(axes, f"score, in units of {baseline}'s mean", "runs above it")
    _common_legend(figure)
    return figure


def scores_figure(scores: Mapping[str, Points], xlabel: str) -> Figure:
    """Scores of several groups on several problems, with intervals: a row per problem, a mark per group in it."""
    figure = Figure(layout="constrained")
    problems = list(dict.fromkeys(problem for points in scores.values() for problem in points))
    figure.set_size_inches(7, 1 + 0.5 * len(problems))
    axes = figure.subplots()
    for i, (group, points) in enumerate(scores.items()):
        beside = 0.12 * (i - (len(scores) - 1) / 2)  # so that error bars do not overlap
        y = np.array([problems.index(problem) for problem in points]) + beside
        x, low, high = np.array(list(points.values())).reshape(-1, 3).T
        bars = np.maximum([x - low, high - x], 0)
        axes.errorbar(x, y, xerr=bars, color=look(i)["color"], linestyle="none", marker="o", capsize=3, label=group)
    axes.set_yticks(range(len(problems)), problems)
    axes.invert_yaxis()  # the first one on top
    name_axes(axes, xlabel)
    _common_legend(figure)
    return figure


def settings_figure(panels: Mapping[str, Mapping[str, Points]], xlabel: str, ylabel: str) -> Figure:
    """A score over the values of a setting, with intervals: a panel per title, and a line per name in it.

    Values are evenly spaced, in the given order: they need not be numbers.
    """
    figure = Figure(layout="constrained")
    for axes, title in _panels(figure, list(panels)):
        values = list(dict.fromkeys(value for points in panels[title].values() for value in points))
        for i, (name, points) in enumerate(panels[title].items()):
            beside = 0.08 * (i - (len(panels[title]) - 1) / 2)  # so that error bars do not overlap
            x = np.array([values.index(value) for value in points]) + beside
            y, low, high = np.array(list(points.values())).T
            bars = np.maximum([y - low, high - y], 0)
            axes.errorbar(x, y, bars, **look(i), marker="o", capsize=3, label=name)
        axes.set_xticks(range(len(values)), values)
        name_axes(axes, xlabel, ylabel)
    _common_legend(figure)
    return figure


def _panels(figure: Figure, titles: Sequence[str]) -> Iterator[tuple[Axes, str]]:
    """A panel per title, three in a row."""
    columns = min(3, len(titles))
    rows = -(-len(titles) // columns)
    figure.set_size_inches(5 * columns, 3.6 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(titles) :]:
        axes.set_visible(False)
    for axes, title in zip(panels, titles, strict=False):
        axes.set_title(title)
        yield axes, title


def _common_legend(figure: Figure) -> None:
    """One legend for all panels, below them: inside a panel it would hide lines."""
    named = {
        name: handle for axes in figure.axes for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    inches = 0.5 + 0.08 * max(map(len, named))  # width of an entry
    columns = max(1, int(figure.get_figwidth() / inches))
    figure.set_figheight(figure.get_figheight() + 0.25 * -(-len(named) // columns))
    figure.legend(named.values(), named.keys(), loc="outside lower center", frameon=False, ncols=columns)


def draw_mean(
    axes: Axes, x: Array, curves: Array, place: int, name: str, rng: np.random.Generator, level: float = 0.95
) -> None:
    """The mean of curves (seeds, points), where all are known, with a bootstrap band over seeds."""
    known = np.isfinite(curves).all(0)
    x, curves = x[known], curves[:, known]
    rows = rng.integers(len(curves), size=(1_000, len(curves)))
    band = np.quantile(curves[rows].mean(1), [(1 - level) / 2, (1 + level) / 2], axis=0)
    _draw_band(axes, x, curves.mean(0), band, place, name)


def _draw_band(
    axes: Axes, x: Array, y: stats.Value, band: Sequence[stats.Value] | Array, place: int, name: str
) -> None:
    axes.plot(x, y, **look(place), label=name.replace("$", r"\$"))  # a name is not a formula
    axes.fill_between(x, *band, color=look(place)["color"], alpha=0.2, linewidth=0)


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of its file name. Files contain no time: the same figure gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_file(path, encoded(figure, path.suffix.removeprefix(".")))


def encoded(figure: Figure, kind: str = "png", dpi: int = 150) -> bytes:
    """A figure as the content of a file of this format."""
    content = io.BytesIO()
    with rc_context({"svg.hashsalt": "bdqn", "pdf.fonttype": 42}):  # fonts that publishers accept
        figure.savefig(content, format=kind, dpi=dpi, bbox_inches="tight", metadata=TIMELESS.get(kind))
    return content.getvalue()


def save_all(figures: Mapping[str, Figure], folder: Path, formats: Sequence[str]) -> list[str]:
    """Write figures in several formats and return the names of the files."""
    files = {f"{name}.{kind}": figure for name, figure in figures.items() for kind in formats}
    for name, figure in files.items():
        save(figure, folder / name)
    return list(files)
