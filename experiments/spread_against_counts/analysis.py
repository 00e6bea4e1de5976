"""How much do draws of Q differ, and how often was the context and action met? A figure and a table.

Reads the table that run.py writes, and runs nothing: python experiments/spread_against_counts/analysis.py
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from bdqn.report.experiment import Page
from bdqn.report.figures import look
from bdqn.report.studies import interval
from bdqn.report.study_pages import Row, column, episodes, finish, names, panels, read, slope, where, write_page

BINS = (1, 3, 10, 30, 100, 300, 1000, 10_000)  # counts from each on, up to the next
OFTEN = 100

Array = NDArray[np.float64]


def counts_and_spreads(rows: Sequence[Row]) -> tuple[Array, Array]:
    return column(rows, "count"), column(rows, "spread")


def medians(rows: Sequence[Row]) -> tuple[Array, Array]:
    """The geometric mean of the counts in each bin, and the median spread there; empty bins are left out."""
    count, value = counts_and_spreads(rows)
    bins = [(count >= low) & (count < high) for low, high in pairwise(BINS)]
    met = [own for own in bins if own.any()]
    at, value = zip(*((np.exp(np.log(count[own]).mean()), np.median(value[own])) for own in met), strict=True)
    return np.array(at), np.array(value)


def statistics(rows: Sequence[Row]) -> dict[str, Array]:
    """Of each seed: how spread falls with the count, and how much larger it is where nothing is known."""
    found: dict[str, list[float]] = {"rank correlation": [], "slope": [], "never over often": []}
    for seed in names(rows, "seed"):
        count, value = counts_and_spreads(where(rows, seed=seed))
        met = (count > 0) & (value > 0)
        if len(set(count[met])) < 3 or not (count >= OFTEN).any():
            continue
        found["rank correlation"].append(float(spearmanr(count[met], value[met]).statistic))
        found["slope"].append(slope(count[met], value[met]))
        found["never over often"].append(float(np.median(value[count == 0]) / np.median(value[count >= OFTEN])))
    return {name: np.array(values) for name, values in found.items()}


def with_interval(values: Array) -> str:
    if not len(values):
        return "too few data"
    mean, low, high = (f"{part:.2f}" for part in interval(values))
    return f"{mean} ({low} to {high})"


def spread(page: Page) -> None:
    rows = read(page, "spread")
    agents = names(rows, "agent")
    told = (
        f"{episodes(page, 'spread')} decisions of one policy, the same for all agents. Means over seeds, with 95 % "
        "intervals. The slope is that of the logarithm of the spread in that of the count: for a mean of n rewards it "
        f"is -0.5. The last column is the median spread of what was never met over that of what was met {OFTEN} times "
        "or more."
    )
    page.say(textwrap.fill(told, 120))
    lines = [["agent", "rank correlation of spread and count", "slope", "never met over often met"]]
    lines += [[agent, *map(with_interval, statistics(where(rows, agent=agent)).values())] for agent in agents]
    page.cells(lines)
    figure, (absolute, relative) = panels(2)
    known = np.array([BINS[0], BINS[-2]])
    absolute.plot(known, known**-0.5, color="black", linestyle=":", label="1 / sqrt(count)")
    for place, agent in enumerate(agents):
        own = where(rows, agent=agent)
        at, value = medians(own)
        never = float(np.median(column(where(own, count="0"), "spread")))
        absolute.plot(at, value, **look(place), marker="o", markersize=3)
        relative.plot(at, value / never if never else value, **look(place), marker="o", markersize=3, label=agent)
    finish(absolute, "Spread of Q over draws", "times met", "standard deviation, in rewards", log="xy")
    finish(relative, "Over that where nothing was met", "times met", "share of the spread", log="xy")
    page.figure("spread.png", figure)


write_page(
    __file__,
    "Spread against counts",
    "each spread (draws of Q)",
    {"Draws, counted and uncounted": (spread, ("spread",))},
)
