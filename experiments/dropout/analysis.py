"""Is dropout a way to explore? Against Double DQN, Bayesian DQN and random actions.

Reads the CSV files of results/ only: python experiments/dropout/analysis.py
"""

from __future__ import annotations

from bdqn.report.compare import SCORES
from bdqn.report.experiment import Page, of_statistic, part_of, verdict
from bdqn.report.tables import Row, pair_rows


def sentences(rows: list[Row], groups: list[str]) -> list[str]:
    return [
        f"{row.env}, {row.group} against {row.baseline}: {score} ratio {verdict(row)}."
        for score in SCORES
        for row in of_statistic(rows, "ratio", score)
        if row.group in groups
    ]


page = Page(__file__)
page.say("# Dropout as a way to explore")
study = page.read("sweep.toml")
dropout = list(dict.fromkeys(trial.group for trial in study.sweep.trials if trial.agent == "dropout"))
page.points(sentences(page.compare(study.found, "ddqn"), dropout))
page.say("## Is it better than random actions?")
page.points(sentences(pair_rows(part_of(study.found, ["random", *dropout]), "random", page.rng), dropout))
page.curves("curves.png", study.found)
page.write()
