"""DQN, Double DQN and Bayesian DQN on CartPole: who learns soonest, and who keeps it.

Reads the CSV files of results/ only: python experiments/cartpole/analysis.py
"""

from bdqn.report.experiment import Page

page = Page(__file__)
page.say("# DQN, Double DQN and Bayesian DQN on CartPole")
study = page.read("sweep.toml")
page.compare(study.found, baseline="ddqn")
page.curves("curves.png", study.found)
page.write()
