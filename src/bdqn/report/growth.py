"""Episodes until DeepSea is solved, against its size: how they grow, and what others published."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bdqn.linear.regret import growth_exponent
from bdqn.report.collect import first_where
from bdqn.report.figures import COLORS, name_axes
from bdqn.report.load import Array

TICKS = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)  # episodes
GRAYS = ("0.3", "0.5", "0.7")  # of published lines: colours are for own runs
BySize = dict[int, Array]  # N -> episodes that each run took to solve it


@dataclass(frozen=True, eq=False)
class Published:
    """What others needed, or had."""

    name: str
    source: str
    where: str  # it was read
    meaning: str  # of its episodes
    sizes: Array
    episodes: Array
    formula: str  # empty: single points

    @property
    def sentence(self) -> str:
        what = f"{self.formula} episodes" if self.formula else "episodes"
        sizes = f"N = {self.sizes.min():g} to {self.sizes.max():g}"
        return f"{self.name} ({self.source}): {what}, {sizes}. {self.meaning} Read in {self.where}."


def read_published() -> list[Published]:
    """The published lines of DeepSea, from assets/published.toml."""
    text = (resources.files("bdqn.report") / "assets" / "published.toml").read_text(encoding="utf-8")
    return [_published(**entry) for entry in tomllib.loads(text)["deep_sea"]]


def _published(
    sizes: list[int],
    log10_factor: float = 0.0,
    exponent: float = 0.0,
    decisions: list[int] | None = None,
    **words: Any,
) -> Published:
    if decisions is not None:  # an episode of DeepSea has N of them
        points = np.array(sizes, np.float64)
        return Published(**words, sizes=points, episodes=np.array(decisions) / points, formula="")
    low, high = sizes
    along = np.arange(low, high + 1.0)
    formula = f"{10**log10_factor:.2f} N^{exponent:g}"
    return Published(**words, sizes=along, episodes=10**log10_factor * along**exponent, formula=formula)


def size_of(env: str) -> int | None:
    """N in the id of a DeepSea; None for its stochastic variant, whose returns tell little, and for all others."""
    found = re.fullmatch(r"bdqn/DeepSea([1-9]\d{0,2})-v0", env)
    return int(found.group(1)) if found else None


def treasure_found(returns: Array) -> NDArray[np.bool_]:
    """The episodes that found the treasure."""
    return returns > 0.5


def solved_at(returns: Array) -> int | str:
    """The episode at which bsuite calls DeepSea solved: fewer than nine tenths of all so far were bad."""
    bad = np.cumsum(~treasure_found(returns)) / np.arange(1, len(returns) + 1)
    return first_where(bad < 0.9)


def solved_by_size(runs: Iterable[tuple[str, str, int | str]]) -> dict[str, BySize]:
    """Every group with runs of DeepSea, and the sizes that all of them solved; of a run: environment, group, when."""
    found: dict[str, dict[int, list[int | str]]] = {}
    for env, group, solved in runs:
        size = size_of(env)
        if size is not None:
            found.setdefault(group, {}).setdefault(size, []).append(solved)
    return {
        group: {size: np.array(runs, np.float64) for size, runs in sizes.items() if all(runs)}
        for group, sizes in found.items()
    }


def growth_figure(solved: Mapping[str, BySize], rng: np.random.Generator, level: float) -> tuple[Figure, list[str]]:
    """Episodes against N, with a line for every group of two sizes or more, beside published ones; what it shows."""
    figure = Figure(figsize=(6, 5.4), layout="constrained")
    axes = figure.subplots()
    sentences: list[str] = []
    drawn = {group: sizes for group, sizes in solved.items() if sizes}
    for color, (group, sizes) in zip(cycle(COLORS), drawn.items(), strict=False):
        size, episodes = _points_of(sizes)
        name = group
        if len(sizes) > 1:
            exponent, offset = np.polyfit(np.log(size), np.log(episodes), 1)
            low, high = _exponent_interval(sizes, rng, level)
            growth = f"N^{exponent:.2f} ({100 * level:g} %: {low:.2f} to {high:.2f})"
            line = np.array([size.min(), size.max()])
            axes.loglog(line, np.exp(offset) * line**exponent, color=color)
            name = f"{group}: {growth}"
            sentences += _on_growth(group, sizes, growth)
        axes.loglog(size, episodes, "o", color=color, alpha=0.5, label=name.replace("$", r"\$"))
    own = {size for sizes in drawn.values() for size in sizes}
    published = read_published()
    ticks = sorted(own | _draw_published(axes, published, max(own, default=0)))
    axes.set_xticks(ticks, [str(size) for size in ticks])
    bottom, top = axes.get_ylim()
    rows = [count for count in TICKS if bottom < count < top]
    axes.set_yticks(rows, [f"{count:,}" for count in rows])
    axes.minorticks_off()
    name_axes(axes, "N", "episodes until solved")
    figure.legend(loc="outside lower center", frameon=False)  # inside it would hide points
    return figure, [*sentences, *_no_growth(solved), *(other.sentence for other in published)]


def _draw_published(axes: Axes, published: Sequence[Published], largest: int) -> set[int]:
    """Draw what was published, up to the largest of our sizes, and return where that begins and ends."""
    first = min(int(other.sizes.min()) for other in published)
    end = max(largest, 2 * first)
    for gray, other in zip(GRAYS, published, strict=True):
        shown = other.sizes <= end
        label = f"{other.name}{other.formula and f' ({other.formula})'}: {other.source}"
        style = "--" if other.formula else "x"
        axes.loglog(other.sizes[shown], other.episodes[shown], style, color=gray, label=label)
    return {first, end}


def _on_growth(group: str, sizes: BySize, growth: str) -> Iterator[str]:
    counts = ", ".join(f"{n} ({len(sizes[n])} {'run' if len(sizes[n]) == 1 else 'runs'})" for n in sorted(sizes))
    yield (
        f"{group}: episodes to solve grow as {growth}, over N = {counts}. "
        "Sizes that not every run solved by bsuite's criterion are left out."
    )
    if any(len(found) == 1 for found in sizes.values()):
        yield f"{group}: sizes with a single run do not widen the interval, though they should."


def _no_growth(solved: Mapping[str, BySize]) -> Iterator[str]:
    """A sentence about each group that is not fitted, and one about all that have nothing to fit."""
    for group, sizes in solved.items():
        if len(sizes) == 1:
            yield f"{group}: N = {next(iter(sizes))} alone was solved on all runs, which gives no growth to fit."
    none = [group for group, sizes in solved.items() if not sizes]
    if none:
        yield f"No size was solved on all runs by {', '.join(none)}: no growth to fit."


def _points_of(sizes: BySize) -> tuple[Array, Array]:
    """N (runs,) and episodes (..., runs)."""
    counts = [episodes.shape[-1] for episodes in sizes.values()]
    return np.repeat(np.array([*sizes], np.float64), counts), np.concatenate(list(sizes.values()), axis=-1)


def _exponent_interval(sizes: BySize, rng: np.random.Generator, level: float, samples: int = 2_000) -> Array:
    """The ends of a bootstrap interval of the growth with N: runs are drawn anew within each size."""
    drawn = {size: runs[rng.integers(len(runs), size=(samples, len(runs)))] for size, runs in sizes.items()}
    return np.quantile(growth_exponent(*_points_of(drawn)), [(1 - level) / 2, (1 + level) / 2])
