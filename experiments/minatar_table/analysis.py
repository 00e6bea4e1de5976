"""Six agents, tuned alike, on the five games of MinAtar: which settings were chosen, and the table.

Reads the CSV files of results/ only: python experiments/minatar_table/analysis.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bdqn.report.compare import Comparison
from bdqn.report.experiment import Page, Study, of_statistic, verdict
from bdqn.report.tables import Row
from bdqn.sweep.plan import Sweep, read_sweep

LEVEL = 0.9
BASELINE = "ddqn"
TUNED = ("learning_rate", "exploration_final_eps", "prior_var", "value_spread", "prior_scale", "sigma0", "bonus_scale")


def column_of(group: str) -> str:
    """A group's name without the values of its grid."""
    return group.split(" ")[0]


def over_games(found: Comparison, group: str, envs: list[str]) -> float:
    """The geometric mean over games of a group's mean areas; NaN if a game has no runs, 0 if one has no reward."""
    areas = [[run.area for run in found.of(group, env)] for env in envs]
    if not all(areas):
        return float("nan")
    means = np.maximum([np.mean(area) for area in areas], 0.0)
    return float(np.prod(means) ** (1 / len(means)))


def tuned_values(sweep: Sweep) -> dict[str, dict[str, Any]]:
    """What each group of a sweep has of the settings that are tuned."""
    return {t.group: {name: t.settings[name] for name in TUNED if name in t.settings} for t in sweep.trials}


def say_choice(page: Page, tuned: Study, used: Sweep) -> None:
    """The best setting of every agent, and whether the results have it."""
    values, own = tuned_values(tuned.sweep), tuned_values(used)
    envs = list(dict.fromkeys(trial.env for trial in tuned.sweep.trials))
    areas = {group: over_games(tuned.found, group, envs) for group in values}
    lines, differing = [["agent", "chosen", "area", "sweep.toml"]], []
    for column in own:
        mine = {group: area for group, area in areas.items() if column_of(group) == column and not np.isnan(area)}
        if not mine:
            continue
        best = max(mine, key=lambda group: mine[group])
        same = values[best] == own[column]
        chosen = best.removeprefix(f"{column} ")
        lines.append([column, chosen, f"{mine[best]:.3g}", "the same" if same else "another"])
        if not same:
            differing.append(f"{column}: sweep.toml does not have the chosen {chosen}.")
    if len(lines) > 1:
        page.say("The largest area, as a geometric mean over both games:")
        page.cells(lines)
        page.points(differing)


def say_table(page: Page, found: Comparison, rows: list[Row]) -> None:
    """Mean areas with intervals, a row per game and a column per agent."""
    cells = {
        (row.env, row.group): f"{row.estimate:.2f} ({row.low:.2f} to {row.high:.2f})"
        for row in rows
        if (row.baseline, row.score, row.statistic) == ("", "area", "mean")
    }
    lines = [[env, *(cells.get((env, group), "-") for group in found.groups)] for env in found.envs]
    if cells:
        page.say(f"Area under the learning curve, means over seeds with {LEVEL:.0%} intervals:")
        page.cells([["game", *found.groups], *lines])


page = Page(__file__)
page.say("# MinAtar: one table")
page.say("## Settings, chosen on seeds of their own")
say_choice(page, page.read("tune.toml"), read_sweep(page.folder / "sweep.toml"))
page.say("## The table")
found = page.read("sweep.toml").found
rows = page.compare(found, BASELINE, LEVEL)
say_table(page, found, rows)
page.points(
    [f"{row.env}, {row.group} over {BASELINE}: area ratio {verdict(row)}." for row in of_statistic(rows, "ratio")]
)
page.curves("curves.png", found, LEVEL)
page.write()
