"""What deep exploration costs where plain Thompson sampling suffices.

Reads the CSV files of results/ only: python experiments/deep_cost/analysis.py
"""

from __future__ import annotations

from bdqn.report.experiment import Page, of_statistic, verdict

LEVEL = 0.9
TARGET = 0.85  # for the lower end of the interval of the areas' ratio, on each game of sweep.toml

page = Page(__file__)
page.say("# What deep exploration costs where plain Thompson sampling suffices")

page.say("## Breakout and Freeway")
games = page.read("sweep.toml").found
page.points(
    [
        f"{row.env}: area over plain Bayesian DQN's {row.estimate:.3f}, lower end {row.low:.3f}: "
        f"the target of {TARGET} is {'reached' if row.low >= TARGET else 'missed'}."
        for row in of_statistic(page.compare(games, "bdqn", LEVEL), "ratio")
    ]
)
page.curves("curves.png", games, LEVEL)

page.say("## Seaquest")
seaquest = page.read("seaquest.toml").found
rows = of_statistic(page.compare(seaquest, "bdqn", LEVEL), "ratio")
page.points([f"{row.group}: area over plain Bayesian DQN's is {verdict(row)}." for row in rows])
page.curves("seaquest.png", seaquest, LEVEL)

page.say("## MountainCar")
page.say("Returns are negative: differences, not ratios, say who is better.")
mountain_car = page.read("mountain_car.toml").found
page.compare(mountain_car, "bdqn", LEVEL)
page.curves("mountain_car.png", mountain_car, LEVEL)
page.write()
