"""Does a learning rate ten times larger break Double DQN, and not Bayesian DQN?

Reads the CSV files of results/ only: python experiments/learning_rate/analysis.py
"""

from __future__ import annotations

from bdqn.report.experiment import Page, Study, part_of, ratios, verdict
from bdqn.report.tables import Row

NAMES = {"ddqn": "Double DQN", "bdqn": "Bayesian DQN"}
FILES = {"Adam": "sweep.toml", "the paper's RMSProp": "rmsprop.toml"}
BROKEN = 0.5  # a score that has fallen to less than this share of that at the preset's rate, interval and all


def rates_of(study: Study, agent: str) -> dict[str, str]:
    """The groups of an agent, by how many times the first rate theirs is."""
    rates = {t.group: float(t.settings["learning_rate"]) for t in study.sweep.trials if t.agent == agent}
    first = next(iter(rates.values()))
    return {f"{rate / first:g}x": group for group, rate in rates.items()}


def sentence(agent: str, times: str, row: Row) -> str:
    end = f" It has lost more than half: {NAMES[agent]} is broken there." if row.high < BROKEN else ""
    return f"{row.env}, {NAMES[agent]} at {times}: {row.score} over that at 1x is {verdict(row)}.{end}"


page = Page(__file__)
page.say("# Learning rates: does ten times break Double DQN, and not Bayesian DQN?")
for optimizer, file in FILES.items():
    page.say(f"## With {optimizer}")
    study = page.read(file)
    rows: list[Row] = []
    lines = {}
    for agent, name in NAMES.items():
        groups = rates_of(study, agent)
        lines[name] = groups
        mine = part_of(study.found, list(groups.values()))
        if mine.results:
            page.say(f"### {name}")
            found = page.compare(mine, groups["1x"])
            rows += found
            times = {group: times for times, group in groups.items()}
            for score in ("area", "final"):
                page.points([sentence(agent, times[row.group], row) for row in ratios(found, score)])
    figure = "adam.png" if file == "sweep.toml" else "rmsprop.png"
    page.settings(figure, rows, lines, "learning rate, in the preset's")
page.write()
