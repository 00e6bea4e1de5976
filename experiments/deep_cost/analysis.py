"""What deep exploration costs where plain Thompson sampling suffices.

Reads the CSV files of results/ only: python experiments/deep_cost/analysis.py
"""

from __future__ import annotations

from bdqn.report.experiment import Page, ratios, verdict

LEVEL = 0.9
TARGET = 0.85  # for the lower end of the interval of the areas' ratio, on each game of sweep.toml
OTHERS = {"Seaquest": "seaquest.toml", "MountainCar": "mountain_car.toml"}

page = Page(__file__)
page.say("# What deep exploration costs where plain Thompson sampling suffices")

page.say("## Breakout and Freeway")
games = page.read("sweep.toml").found
page.points(
    [
        f"{row.env}: area over plain Bayesian DQN's {row.estimate:.3f}, lower end {row.low:.3f}: "
        f"the target of {TARGET} is {'reached' if row.low >= TARGET else 'missed'}."
        for row in ratios(page.compare(games, "bdqn", LEVEL))
    ]
)
page.curves("curves.png", games, LEVEL)

for title, file in OTHERS.items():
    page.say(f"## {title}")
    found = page.read(file).found
    rows = ratios(page.compare(found, "bdqn", LEVEL))
    page.points([f"{row.group}: area over plain Bayesian DQN's is {verdict(row)}." for row in rows])
    page.curves(f"{file.removesuffix('.toml')}.png", found, LEVEL)
page.write()
