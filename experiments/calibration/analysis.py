"""How many returns do intervals hold, before and after calibration? Tables and a figure.

Reads what measure.py wrote, and trains nothing: python experiments/calibration/analysis.py
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from bdqn.report.collect import read_rows
from bdqn.report.compare import label_of
from bdqn.report.experiment import Page
from bdqn.report.figures import COLORS
from bdqn.report.study_pages import Row, column, finish, names, panels, where
from bdqn.sweep.plan import read_sweep

SWEEPS = ("problems.toml", "minatar.toml", "explore.toml")
LEVELS = ("0.5", "0.9", "0.99")
OURS = "conformal, predictive"
SHOWN = {"epistemic": "mean and std of Q", "predictive": "with the noise of one target", OURS: "calibrated"}
BAND = (0.85, 0.95)  # in which calibrated intervals of 90 % are to lie


def shares(rows: Sequence[Row], score: str = "held") -> str:
    """Mean over seeds, and the smallest and the largest of them."""
    held = 100 * column(rows, score)
    return f"{held.mean():.0f} ({held.min():.0f} to {held.max():.0f})" if len(held) else "-"


def before_and_after(page: Page, rows: Sequence[Row], groups: Sequence[tuple[str, str]]) -> None:
    told = (
        "Share of returns in percent that intervals hold, on 100 episodes of each seed that calibration has not seen. "
        "Every episode counts once. Mean over seeds, and the smallest and largest seed."
    )
    page.say(textwrap.fill(told, 120))
    levels = [f"{100 * float(level):g} %" for level in LEVELS]
    lines = [["environment", "agent", *(f"{name}: {level}" for name in SHOWN.values() for level in levels)]]
    for env, group in groups:
        own = where(rows, env=env, group=group)
        cells = (shares(where(own, method=method, level=level)) for method in SHOWN for level in LEVELS)
        lines.append([env, group, *cells])
    page.cells(lines)


def conclusions(page: Page, rows: Sequence[Row], groups: Sequence[tuple[str, str]]) -> None:
    points = []
    for env, group in groups:
        own = where(rows, env=env, group=group, level="0.9")
        calibrated = where(own, method=OURS)
        held, low, high = column(calibrated, "held").mean(), *BAND
        inside = "within" if low <= held <= high else "outside"
        before = column(where(own, method="epistemic"), "held").mean()
        bias, spread = (column(calibrated, name).mean() for name in ("bias", "spread"))
        points.append(
            f"{env}, {group} ({len(calibrated)} seeds): intervals of 90 % held {before:.0%} before and {held:.0%} "
            f"after calibration, {inside} {low:.0%} to {high:.0%}; at the first decision of an episode "
            f"{column(calibrated, 'held_at_start').mean():.0%}. Q was {bias:+.2f} off on average, and returns lay "
            f"{spread:.2f} (root mean square) around that."
        )
    page.points(points)


def ways_to_calibrate(page: Page, rows: Sequence[Row], groups: Sequence[tuple[str, str]]) -> None:
    methods = [name for name in names(rows, "method") if name not in ("epistemic", "predictive")]
    page.say("## Ways to calibrate")
    page.say(
        "Intervals of 90 % and of 50 %: the share that they hold, and for 90 % their width over that of the first way."
    )
    lines = [["environment", "agent", *(f"{name}: 50 %, 90 %, width" for name in methods)]]
    for env, group in groups:
        cells = []
        unit = column(where(rows, env=env, group=group, level="0.9", method=methods[0]), "width")
        for name in methods:
            own = where(rows, env=env, group=group, method=name)
            half, most = (where(own, level=level) for level in ("0.5", "0.9"))
            width = np.exp(np.log(column(most, "width") / unit).mean())
            cells.append(f"{column(half, 'held').mean():.0%}, {column(most, 'held').mean():.0%}, {width:.2f}")
        lines.append([env, group, *cells])
    page.cells(lines)


def draw(page: Page, rows: Sequence[Row], groups: Sequence[tuple[str, str]]) -> None:
    figure, axes = panels(len(groups), height=4.6)
    figure.set_figwidth(3.2 * len(groups))
    for place, (axis, (env, group)) in enumerate(zip(axes, groups, strict=True)):
        axis.plot([0.4, 1], [0.4, 1], color="black", linestyle=":", linewidth=1, label="as promised")
        for color, (method, label) in zip(COLORS, SHOWN.items(), strict=False):
            for shift, level in enumerate(LEVELS):
                held = column(where(rows, env=env, group=group, method=method, level=level), "held")
                at = np.full(len(held), float(level))
                axis.plot(at, held, "o", color=color, markersize=4, alpha=0.6, label="" if shift else label)
            means = [column(where(rows, env=env, group=group, method=method, level=v), "held").mean() for v in LEVELS]
            axis.plot([float(level) for level in LEVELS], means, color=color)
        axis.set_ylim(-0.03, 1.03)
        finish(axis, f"{env}, {group}", "level of the interval", "share of returns held", legend=place == 0)
    page.figure("coverage.png", figure)


def main() -> None:
    page = Page(__file__, made_by="measure.py --out")
    rows = read_rows(page.results / "coverage.csv")
    known = {label_of(row["group"], row["env"], int(row["seed"])) for row in rows}
    trials = [trial for sweep in SWEEPS for trial in read_sweep(page.folder / sweep, page.scale).trials]
    page.say("# Calibration")
    page.points([f"{trial.label} is missing." for trial in trials if trial.label not in known])
    groups = sorted({(row["env"], row["group"]) for row in rows}, key=lambda pair: (pair[1], pair[0]))
    if rows:
        before_and_after(page, rows, groups)
        conclusions(page, rows, groups)
        draw(page, rows, groups)
        ways_to_calibrate(page, rows, groups)
    page.write()


if __name__ == "__main__":
    main()
