"""DeepSea: who solves it, and after how many episodes.

Reads results/solved.csv only: python experiments/deep_sea/analysis.py
"""

from __future__ import annotations

import csv

from bdqn.report.experiment import Page
from bdqn.sweep.plan import read_sweep

FILES = ("size10.toml", "sweep.toml")
Rows = list[dict[str, str]]


def by_seed(rows: Rows, column: str) -> str:
    """One figure per seed; a dash where it never happened."""
    return ", ".join(row[column] or "-" for row in rows)


def is_solved(row: dict[str, str]) -> bool:
    """By bsuite's criterion, and kept: the treasure in at least 90 of the last 100 episodes."""
    return bool(row["solved"]) and float(row["last_100"]) >= 0.9


page = Page(__file__)
page.say("# DeepSea: episodes to solve")
path = page.folder / "results" / "solved.csv"
runs: dict[tuple[str, str], Rows] = {}
if path.exists():
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            runs.setdefault((row["env"], row["group"]), []).append(row)
for name in FILES:
    sweep = read_sweep(page.folder / name)
    env, groups = sweep.trials[0].env, list(dict.fromkeys(trial.group for trial in sweep.trials))
    page.say(f"## {env}, {sweep.steps:,} decisions")
    seeds = {trial.seed for trial in sweep.trials}
    lines = ["| agent | solved and kept | solved at episode | first treasure | treasure in the last 100 |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for group in groups:
        found = runs.get((env, group), [])
        kept = f"{sum(map(is_solved, found))} of {len(found)}" if found else "missing"
        cells = (group, kept, *(by_seed(found, column) for column in ("solved", "first", "last_100")))
        lines.append(f"| {' | '.join(cells)} |")
    page.say("\n".join(lines))
    page.points(
        [
            f"{group} has {len(runs.get((env, group), []))} of {len(seeds)} seeds."
            for group in groups
            if len(runs.get((env, group), [])) < len(seeds)
        ]
    )
page.write()
