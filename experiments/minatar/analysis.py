"""Bayesian DQN against Double DQN on MinAtar: which floor was chosen, the scores, and the ratio of areas.

Reads the CSV files of results/ only: python experiments/minatar/analysis.py
"""

from __future__ import annotations

from bdqn.report.experiment import Page
from bdqn.report.tables import Row

LEVEL = 0.9
TARGET = 0.9  # for the lower end of the interval of the areas' ratio
FLOOR = "exploration_final_eps"


def ratios_of_areas(rows: list[Row]) -> list[Row]:
    return [row for row in rows if (row.score, row.statistic) == ("area", "ratio")]


page = Page(__file__)
page.say("# Bayesian DQN against Double DQN on MinAtar")

page.say("## Double DQN's epsilon floor, chosen on seeds of its own")
floors = page.read("floors.toml")
value = {trial.group: trial.settings[FLOOR] for trial in floors.sweep.trials}
first = floors.sweep.trials[0].group
over_both = [row for row in ratios_of_areas(page.compare(floors.found, first, LEVEL)) if row.env == "all"]

page.say("## The comparison")
study = page.read("sweep.toml")
(used,) = {trial.settings[FLOOR] for trial in study.sweep.trials if trial.agent == "ddqn"}
if over_both:
    best = max([(1.0, value[first]), *((row.estimate, value[row.group]) for row in over_both)])[1]
    page.say(
        f"The floor with the largest area over both games is {best}. Double DQN's floor in this comparison is {used}."
    )
ratios = ratios_of_areas(page.compare(study.found, "ddqn", LEVEL))
page.points(
    [
        f"{row.env}: area ratio {row.estimate:.3f}, lower end {row.low:.3f}: "
        f"the target of {TARGET} is {'reached' if row.low >= TARGET else 'missed'}."
        for row in ratios
    ]
)
page.curves("curves.png", study.found, LEVEL)
page.write()
