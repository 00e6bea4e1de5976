"""Does acting safely fail less often, and do claims of safety hold? Tables and figures.

Reads what measure.py wrote, and plays nothing: python experiments/safety/analysis.py
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from bdqn.report.collect import read_rows
from bdqn.report.experiment import Page
from bdqn.report.figures import COLORS
from bdqn.report.studies import interval
from bdqn.report.study_pages import Row, column, finish, names, panels, where

SPREADS = ("epistemic", "predictive", "calibrated")
LEVEL = 0.9


def ranged(values: Sequence[float], digits: int = 2) -> str:
    """Mean over seeds, and the smallest and the largest of them; seeds without a value are left out."""
    known = np.array(values)[~np.isnan(values)]
    if not len(known):
        return "-"
    return f"{known.mean():.{digits}f} ({known.min():.{digits}f} to {known.max():.{digits}f})"


def acting(page: Page, rows: Sequence[Row]) -> None:
    page.say("## Acting")
    told = (
        "200 episodes of each seed. Failure: a return below the threshold. Worst: the mean of the worst 5 % of "
        "returns. Mean over seeds, and the smallest and largest seed. The last column is the difference in failures to "
        "acting by the mean, seed by seed, with a 95 % bootstrap interval."
    )
    page.say(textwrap.fill(told, 120))
    lines = [["environment", "acts by", "seeds", "failures", "mean return", "worst 5 %", "failures more"]]
    for env in names(rows, "env"):
        base = column(where(rows, env=env, act="mean"), "failures")
        for act in names(rows, "act"):
            own = where(rows, env=env, act=act)
            cells = [ranged(column(own, name)) for name in ("failures", "mean", "worst")]
            mean, low, high = interval(column(own, "failures") - base)
            lines.append([env, act, str(len(own)), *cells, f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"])
    page.cells(lines)


def claiming(page: Page, rows: Sequence[Row]) -> None:
    page.say("## Claims")
    told = (
        "Acting by the mean: the share of decisions that a spread calls safe (it says that the return reaches the "
        "threshold with probability 0.9 or more), and the share of those whose return did. Beside them the spread at "
        "the first decision of an episode, and the true standard deviation of returns from there."
    )
    page.say(textwrap.fill(told, 120))
    lines = [["environment", "spread", "called safe", "of those safe", "std at the start", "true std at the start"]]
    for env in names(rows, "env"):
        for spread in SPREADS:
            own = where(rows, env=env, spread=spread)
            scores = ("claimed", "held", "std_at_start", "true_std_at_start")
            lines.append([env, spread, *(ranged(column(own, name)) for name in scores)])
    page.cells(lines)
    points = []
    for env in names(rows, "env"):
        for spread in SPREADS:
            own = where(rows, env=env, spread=spread)
            claimed, held = column(own, "claimed"), column(own, "held")
            said = claimed > 0
            if said.any():
                share = np.average(held[said], weights=claimed[said])
                worst = held[said].min()
                so = "so" if share >= LEVEL else "not so"
                points.append(
                    f"{env}, {spread}: {said.sum()} of {len(own)} seeds call something safe with 90 %, and {share:.0%} "
                    f"of those decisions were (least: {worst:.0%}): {so}."
                )
            else:
                points.append(f"{env}, {spread}: calls nothing safe with 90 %.")
    page.points(points)


def draw_spreads(page: Page, claims: Sequence[Row]) -> None:
    envs = names(claims, "env")
    figure, axes = panels(len(envs), height=3.2)
    for axis, env in zip(axes, envs, strict=True):
        for x, spread in enumerate((*SPREADS, "true")):
            own = where(claims, env=env, spread=SPREADS[0] if spread == "true" else spread)
            values = column(own, "true_std_at_start" if spread == "true" else "std_at_start")
            axis.plot(np.full(len(values), x), values, "o", color=COLORS[x], alpha=0.6)
        axis.set_xticks(range(len(SPREADS) + 1), [*SPREADS, "true"], fontsize=8)
        finish(axis, env, "", "standard deviation at the start", log="y", legend=False)
    page.figure("spread.png", figure)


def draw_acting(page: Page, acts: Sequence[Row]) -> None:
    envs = names(acts, "env")
    figure, axes = panels(len(envs), height=3.2)
    for place, (axis, env) in enumerate(zip(axes, envs, strict=True)):
        for x, act in enumerate(names(acts, "act")):
            own = where(acts, env=env, act=act)
            size = 9 - 1.5 * x  # so that equal results are seen as rings
            axis.plot(column(own, "mean"), column(own, "failures"), "o", color=COLORS[x], markersize=size, label=act)
        finish(axis, env, "mean return", "share of failures", legend=place == 0)
    page.figure("acting.png", figure)


def main() -> None:
    page = Page(__file__, made_by="measure.py --out")
    acts, claims = (read_rows(page.results / name) for name in ("acts.csv", "claims.csv"))
    page.say("# Safety")
    if acts and claims:
        acting(page, acts)
        draw_acting(page, acts)
        claiming(page, claims)
        draw_spreads(page, claims)
    page.write()


if __name__ == "__main__":
    main()
