"""DeepSea: who solves it, after how many episodes, and how that grows with its size.

Reads solved.csv, which collect.py writes: python experiments/deep_sea/analysis.py
"""

from __future__ import annotations

import csv
import re
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure

from bdqn.envs.deep_sea import DeepSea
from bdqn.report.experiment import Page
from bdqn.report.figures import COLORS, label
from bdqn.sweep.plan import read_sweep

FILES = ("size10.toml", "size14.toml", "sweep.toml", "size30.toml", "size40.toml", "size50.toml", "bsuite.toml")
STOCHASTIC = "stochastic.toml"
Rows = list[dict[str, str]]


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
    path = page.results / "solved.csv"
    if path.exists():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                runs.setdefault((row["env"], row["group"]), []).append(row)
    return {key: sorted(rows, key=lambda row: int(row["seed"])) for key, rows in runs.items()}


def say_tables(page: Page, name: str, runs: dict[tuple[str, str], Rows]) -> None:
    """A table for each environment of a sweep file; what of it is missing is named."""
    sweep = read_sweep(page.folder / name, page.scale)
    seeds = len({trial.seed for trial in sweep.trials})
    for env in dict.fromkeys(trial.env for trial in sweep.trials):
        groups = list(dict.fromkeys(trial.group for trial in sweep.trials if trial.env == env))
        page.say(f"## {env}, {sweep.steps:,} decisions ({name})")
        lines = ["| agent | solved and kept | solved at episode | first treasure | treasure in the last 100 |"]
        lines.append("| --- | --- | --- | --- | --- |")
        for group in groups:
            found = runs.get((env, group), [])
            kept = f"{sum(map(is_solved, found))} of {len(found)}" if found else "missing"
            cells = (group, kept, *(by_seed(found, column) for column in ("solved", "first", "last_100")))
            lines.append(f"| {' | '.join(cells)} |")
        page.say("\n".join(lines))
        there = {group: len(runs.get((env, group), [])) for group in groups}
        page.points([f"{group} has {count} of {seeds} seeds." for group, count in there.items() if count < seeds])


def say_growth(page: Page, runs: dict[tuple[str, str], Rows]) -> None:
    """Episodes to solve against N, for every group that bsuite calls solved on all runs of at least two sizes."""
    points: dict[str, list[tuple[int, int]]] = {}
    for (env, group), rows in runs.items():
        if all(row["solved"] for row in rows):
            points.setdefault(group, []).extend((size_of(env), int(row["solved"])) for row in rows)
    points = {group: found for group, found in points.items() if len({size for size, _ in found}) > 1}
    if not points:
        return
    page.say("## How it grows")
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    sentences = []
    for color, (group, found) in zip(cycle(COLORS), points.items(), strict=False):
        size, episodes = np.array(found, np.float64).T
        exponent, offset = np.polyfit(np.log(size), np.log(episodes), 1)
        line = np.array([size.min(), size.max()])
        axes.loglog(size, episodes, "o", color=color, alpha=0.5)
        axes.loglog(line, np.exp(offset) * line**exponent, color=color, label=f"{group}: N^{exponent:.2f}")
        sizes = ", ".join(f"{n} ({(size == n).sum()} runs)" for n in np.unique(size).astype(int))
        sentences.append(
            f"{group}: episodes to solve grow as N^{exponent:.2f}, over N = {sizes}. "
            "Sizes that not every run solved by bsuite's criterion are left out."
        )
    ticks = sorted({size for found in points.values() for size, _ in found})
    axes.set_xticks(ticks, [str(size) for size in ticks])
    low, high = axes.get_ylim()
    rows = [count for count in (20, 50, 100, 200, 500, 1_000, 2_000, 5_000) if low < count < high]
    axes.set_yticks(rows, [f"{count:,}" for count in rows])
    axes.minorticks_off()
    label(axes, "N", "episodes until bsuite calls it solved")
    page.points(sentences)
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
