"""Forgetting: what is left of the way after a success that floods the memory, without a cure and with each.

Reads the CSV files of results/ only: python experiments/forgetting/analysis.py
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from bdqn.report import stats
from bdqn.report.collect import read_rows
from bdqn.report.experiment import Page
from bdqn.report.figures import label, look

LEVEL = 0.9
HEADINGS = ["group", "seeds", "floods per run", "way gone in the next episode", "failures before the next flood"]
COLUMNS = ("floods", "after_1", "lost")
Rows = list[dict[str, str]]
EPISODES = range(11)


def column(rows: Rows, name: str) -> np.ndarray:
    """One number per run; runs without one are left out."""
    return np.array([float(row[name]) for row in rows if row[name]])


def with_interval(values: np.ndarray, rng: np.random.Generator) -> str:
    """The mean over seeds, and its interval."""
    if len(values) < 2:
        return f"{values.mean():.2f}" if len(values) else "-"
    ends = stats.bootstrap(stats.mean, {"": values}, rng, level=LEVEL)
    return f"{values.mean():.2f} ({ends.low:.2f} to {ends.high:.2f})"


def figure_of(groups: dict[str, Rows]) -> Figure:
    """The share of the way that is gone, episode by episode after a flood; every seed as a thin line."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for place, (group, rows) in enumerate(groups.items()):
        shares = np.array([[1.0, *(float(row[f"after_{n}"] or "nan") for n in EPISODES[1:])] for row in rows])
        known = np.isfinite(shares).any(0)
        axes.plot(EPISODES, shares.T, **look(place), alpha=0.3, linewidth=0.8)
        axes.plot(np.array(EPISODES)[known], np.nanmean(shares[:, known], 0), **look(place), linewidth=2, label=group)
    label(axes, "episodes after one that went all the way", "share of the way gone")
    return figure


page = Page(__file__)
page.say("# Forgetting")
study = page.read("sweep.toml")
kept = sorted(read_rows(page.results / "floods.csv"), key=lambda row: int(row["seed"]))
order = dict.fromkeys(trial.group for trial in study.sweep.trials)
groups = {group: rows for group in order if (rows := [row for row in kept if row["group"] == group])}
if groups:
    page.say(f"## After a flood\n\nMeans over seeds, with intervals of {100 * LEVEL:g} %.")
    cells = [
        [group, str(len(rows)), *(with_interval(column(rows, name), page.rng) for name in COLUMNS)]
        for group, rows in groups.items()
    ]
    page.cells([HEADINGS, *cells])
    page.figure("floods.png", figure_of(groups))
page.say("## Returns")
page.compare(study.found, "no-cure", LEVEL)
page.write()
