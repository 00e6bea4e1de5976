"""What of Bayesian DQN does the work: its head, or Thompson sampling?

Reads the CSV files of results/ only: python experiments/what_does_the_work/analysis.py
"""

from __future__ import annotations

import numpy as np

from bdqn.report import stats
from bdqn.report.compare import SCORES, Comparison
from bdqn.report.experiment import Page, part_of, side
from bdqn.report.tables import Row

FLOORS = ("0.1", "0.05", "0.01")
FLOOR = "0.05"  # named before these runs: the best of the three for Double DQN on other seeds (experiments/minatar)
HEADS, WAYS = ("gradient", "bayesian"), ("epsilon", "thompson")


def group(head: str, way: str, floor: str) -> str:
    return f"{head}-{way}" + (f" exploration_final_eps={floor}" if way == "epsilon" else "")


def by_seed(found: Comparison, floor: str, kind: str) -> dict[str, dict[int, np.ndarray]]:
    """Scores (heads, ways) of every seed that all four cells have, by environment."""
    cells = [[found.scores(group(head, way, floor), kind) for way in WAYS] for head in HEADS]
    tables: dict[str, dict[int, np.ndarray]] = {}
    for env in found.envs:
        if all(env in cell for row in cells for cell in row):
            seeds = set.intersection(*(set(cell[env]) for row in cells for cell in row))
            tables[env] = {seed: np.array([[cell[env][seed] for cell in row] for row in cells]) for seed in seeds}
    return {env: seeds for env, seeds in tables.items() if len(seeds) > 1}


def effects_of(table: np.ndarray) -> dict[str, float]:
    """What each change adds on average over the other, and what Thompson sampling adds more with the Bayesian head."""
    (gradient_epsilon, gradient_thompson), (bayesian_epsilon, bayesian_thompson) = table
    return {
        "head": (bayesian_epsilon - gradient_epsilon + bayesian_thompson - gradient_thompson) / 2,
        "exploration": (gradient_thompson - gradient_epsilon + bayesian_thompson - bayesian_epsilon) / 2,
        "interaction": (bayesian_thompson - bayesian_epsilon) - (gradient_thompson - gradient_epsilon),
    }


def effect_rows(found: Comparison, floor: str, rng: np.random.Generator) -> list[Row]:
    """Effects with their intervals: per game, and over all games as shares of the mean of the four cells."""
    rows = []
    for kind in SCORES:
        tables = by_seed(found, floor, kind)
        means = {env: float(np.mean(list(seeds.values()))) for env, seeds in tables.items()}
        for effect in effects_of(np.zeros((2, 2))):
            found_by = {env: np.array([effects_of(t)[effect] for t in seeds.values()]) for env, seeds in tables.items()}
            places: dict[str, stats.Scores] = {env: {env: values} for env, values in found_by.items()}
            if len(tables) > 1 and min(means.values()) > 0:
                places["all, share of the mean"] = {env: values / means[env] for env, values in found_by.items()}
            for place, values in places.items():
                low, high = stats.bootstrap(stats.mean, values, rng)
                seeds = min(map(len, values.values()))
                rows.append(Row(place, effect, "", kind, "effect", seeds, *map(float, (stats.mean(values), low, high))))
    return rows


def told(row: Row) -> str:
    sign = ("cannot be told to change", "adds to", "takes from")[side(row)]
    return f"{row.group} {sign} the {row.score}: {row.estimate:+.2f} ({row.low:+.2f} to {row.high:+.2f})"


page = Page(__file__)
page.say("# What does the work: the closed-form head, or Thompson sampling?")
study = page.read("sweep.toml")
rows = page.compare(study.found, group("gradient", "epsilon", FLOOR))

page.say("## The two changes, paired by seed")
page.say(
    "*head*: Bayesian minus gradient, mean over both ways to explore. *exploration*: Thompson sampling minus\n"
    "epsilon-greedy, mean over both heads. *interaction*: what Thompson sampling adds with the Bayesian head minus\n"
    f"what it adds with the other. Floor {FLOOR} was named beforehand; the others show how much of the answer is the\n"
    "floor's."
)
for floor in FLOORS:
    found = effect_rows(study.found, floor, page.rng)
    if found:
        page.say(f"Epsilon floor {floor}; intervals of 95 %:")
        page.table(found)
        if floor == FLOOR:
            told_of = [row for row in found if row.group != "interaction" and row.score != "final"]
            page.points([f"{row.env}: {told(row)}." for row in told_of])

lines = {
    "gradient head, epsilon": {floor: group("gradient", "epsilon", floor) for floor in FLOORS},
    "Bayesian head, epsilon": {floor: group("bayesian", "epsilon", floor) for floor in FLOORS},
    "gradient head, Thompson": {"Thompson": group("gradient", "thompson", FLOOR)},
    "Bayesian head, Thompson": {"Thompson": group("bayesian", "thompson", FLOOR)},
}
page.settings("cells.png", rows, lines, "epsilon floor, or Thompson sampling")
page.curves("curves.png", part_of(study.found, [group(head, way, FLOOR) for head in HEADS for way in WAYS]))
page.write()
