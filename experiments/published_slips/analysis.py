"""What does each slip of the published program do to the ratio of Bayesian DQN over Double DQN?

Reads the CSV files of results/ only: python experiments/published_slips/analysis.py
"""

from __future__ import annotations

from bdqn.report.compare import SCORES
from bdqn.report.experiment import Page, of_statistic, part_of, verdict
from bdqn.report.tables import pair_rows

# (Bayesian DQN's group, Double DQN's): a slip that only one of them can have leaves the other sound.
PAIRS = {
    "none": ("bdqn", "ddqn"),
    "a ReLU on the baseline's Q": ("bdqn", "ddqn-relu"),
    "batch normalisation": ("bdqn-batch-norm", "ddqn-batch-norm"),
    "initialisation": ("bdqn-normal", "ddqn-normal"),
    "cold draws, one per decision": ("bdqn-cold", "ddqn"),
    "the maximum in the regression's targets": ("bdqn-max", "ddqn"),
    "all": ("bdqn-all", "ddqn-all"),
}

page = Page(__file__)
page.say("# The slips of the published program")
study = page.read("sweep.toml")
page.compare(study.found, "ddqn")
page.say("## Bayesian DQN over Double DQN, under each slip")
page.points(
    [
        f"{row.env}, {slip}: {score} ratio {verdict(row)}."
        for slip, pair in PAIRS.items()
        for score in SCORES
        for row in of_statistic(pair_rows(part_of(study.found, [*pair]), pair[1], page.rng), "ratio", score)
        if row.group == pair[0]
    ]
)
page.curves("curves.png", study.found)
page.write()
