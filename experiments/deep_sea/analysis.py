"""DeepSea: who solves it, after how many episodes, and how that grows with its size.

Reads solved.csv, which collect.py writes: python experiments/deep_sea/analysis.py
"""

from __future__ import annotations

import re
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure

from bdqn.envs.deep_sea import DeepSea
from bdqn.linear.regret import growth_exponent
from bdqn.report.collect import read_rows
from bdqn.report.experiment import Page
from bdqn.report.figures import COLORS, name_axes
from bdqn.sweep.plan import read_sweep

FILES = (
    *("size10.toml", "size14.toml", "sweep.toml", "size30.toml", "size40.toml", "size50.toml", "bsuite.toml"),
    *("default10.toml", "default20.toml", "default30.toml"),
)
STOCHASTIC = "stochastic.toml"
LEVEL = 0.9  # of the interval of the growth
Rows = list[dict[str, str]]
BySize = dict[int, np.ndarray]  # N -> episodes that each run took to solve it


def by_seed(rows: Rows, column: str) -> str:
    """One figure per seed; a dash where it never happened."""
    return ", ".join(row[column] or "-" for row in rows)


def is_solved(row: dict[str, str]) -> bool:
    """By bsuite's criterion, and kept: the treasure in at least 90 of the last 100 episodes."""
    return bool(row["solved"]) and float(row["last_100"]) >= 0.9


def size_of(env: str) -> int:
    found = re.search(r"\d+", env.removeprefix("bdqn/"))
    assert found is not None
    return int(found.group())


def read_runs(page: Page) -> dict[tuple[str, str], Rows]:
    """Every kept run, by environment and group."""
    runs: dict[tuple[str, str], Rows] = {}
    for row in read_rows(page.results / "solved.csv"):
        runs.setdefault((row["env"], row["group"]), []).append(row)
    return {key: sorted(rows, key=lambda row: int(row["seed"])) for key, rows in runs.items()}


def say_tables(page: Page, name: str, runs: dict[tuple[str, str], Rows]) -> None:
    """A table for each environment of a sweep file; what of it is missing is named."""
    sweep = read_sweep(page.folder / name, page.scale)
    seeds = len({trial.seed for trial in sweep.trials})
    for env in dict.fromkeys(trial.env for trial in sweep.trials):
        groups = list(dict.fromkeys(trial.group for trial in sweep.trials if trial.env == env))
        page.say(f"## {env}, {sweep.steps:,} decisions ({name})")
        lines = [["agent", "solved and kept", "solved at episode", "first treasure", "treasure in the last 100"]]
        for group in groups:
            found = runs.get((env, group), [])
            kept = f"{sum(map(is_solved, found))} of {len(found)}" if found else "missing"
            lines.append([group, kept, *(by_seed(found, column) for column in ("solved", "first", "last_100"))])
        page.cells(lines)
        there = {group: len(runs.get((env, group), [])) for group in groups}
        page.points([f"{group} has {count} of {seeds} seeds." for group, count in there.items() if count < seeds])


def solved_by_size(runs: dict[tuple[str, str], Rows]) -> dict[str, BySize]:
    """Every group, with the sizes that bsuite calls solved on all of its runs there."""
    found: dict[str, BySize] = {}
    for (env, group), rows in runs.items():
        sizes = found.setdefault(group, {})
        if all(row["solved"] for row in rows):
            sizes[size_of(env)] = np.array([int(row["solved"]) for row in rows], np.float64)
    return found


def points_of(sizes: BySize) -> tuple[np.ndarray, np.ndarray]:
    """N (runs,) and episodes (..., runs)."""
    counts = [episodes.shape[-1] for episodes in sizes.values()]
    return np.repeat(list(sizes), counts), np.concatenate(list(sizes.values()), axis=-1)


def exponent_interval(sizes: BySize, rng: np.random.Generator, samples: int = 2_000) -> np.ndarray:
    """The ends of a bootstrap interval of the growth with N: runs are drawn anew within each size."""
    drawn = {size: runs[rng.integers(len(runs), size=(samples, len(runs)))] for size, runs in sizes.items()}
    return np.quantile(growth_exponent(*points_of(drawn)), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])


def no_growth(solved: dict[str, BySize]) -> list[str]:
    """A sentence about each group that is not fitted, and one about all that have nothing to fit."""
    sentences = [
        f"{group}: N = {size} alone was solved on all runs, which gives no growth to fit."
        for group, sizes in solved.items()
        for size in (sizes if len(sizes) == 1 else ())
    ]
    none = [group for group, sizes in solved.items() if not sizes]
    return sentences + ([f"No size was solved on all runs by {', '.join(none)}: no growth to fit."] if none else [])


def say_growth(page: Page, runs: dict[tuple[str, str], Rows]) -> None:
    """Episodes to solve against N, for every group that bsuite calls solved on all runs of at least two sizes."""
    solved = solved_by_size(runs)
    if not solved:
        return
    page.say("## How it grows")
    figure = Figure(figsize=(6, 4.6), layout="constrained")
    axes = figure.subplots()
    sentences = []
    fitted = {group: sizes for group, sizes in solved.items() if len(sizes) > 1}
    for color, (group, sizes) in zip(cycle(COLORS), fitted.items(), strict=False):
        size, episodes = points_of(sizes)
        exponent, offset = np.polyfit(np.log(size), np.log(episodes), 1)
        low, high = exponent_interval(sizes, page.rng)
        growth = f"N^{exponent:.2f} ({100 * LEVEL:g} %: {low:.2f} to {high:.2f})"
        line = np.array([size.min(), size.max()])
        axes.loglog(size, episodes, "o", color=color, alpha=0.5)
        axes.loglog(line, np.exp(offset) * line**exponent, color=color, label=f"{group}: {growth}")
        counts = ", ".join(f"{n} ({len(sizes[n])} {'run' if len(sizes[n]) == 1 else 'runs'})" for n in sorted(sizes))
        sentences.append(
            f"{group}: episodes to solve grow as {growth}, over N = {counts}. "
            "Sizes that not every run solved by bsuite's criterion are left out."
        )
        if any(len(found) == 1 for found in sizes.values()):
            sentences.append(f"{group}: sizes with a single run do not widen the interval, though they should.")
    page.points(sentences + no_growth(solved))
    if not fitted:
        return
    ticks = sorted({size for sizes in fitted.values() for size in sizes})
    axes.set_xticks(ticks, [str(size) for size in ticks])
    bottom, top = axes.get_ylim()
    rows = [count for count in (20, 50, 100, 200, 500, 1_000, 2_000, 5_000) if bottom < count < top]
    axes.set_yticks(rows, [f"{count:,}" for count in rows])
    axes.minorticks_off()
    name_axes(axes, "N", "episodes until bsuite calls it solved")
    figure.legend(loc="outside lower center", frameon=False)  # inside it would hide points
    page.figure("growth.png", figure)


def say_stochastic(page: Page) -> None:
    """There no single episode tells whether the treasure was found, for rewards are noisy: returns do, on average."""
    page.say(f"## The stochastic variant ({STOCHASTIC})")
    study = page.read(STOCHASTIC)
    (size,) = {size_of(trial.env) for trial in study.sweep.trials}
    best = DeepSea(size, stochastic=True).optimal_return
    page.say(f"To go right throughout returns {best:.3f} on average; never to find out, 0.")
    page.compare(study.found, "bdqn-deep")
    page.curves("stochastic.png", study.found)


def main() -> None:
    page = Page(__file__)
    page.say("# DeepSea: episodes to solve")
    runs = read_runs(page)
    for name in FILES:
        say_tables(page, name, runs)
    say_growth(page, runs)
    say_stochastic(page)
    page.write()


main()
