"""DQN, Double DQN and Bayesian DQN on CartPole, and then every agent: who learns soonest, and who keeps it.

Reads the CSV files of results/ only: python experiments/cartpole/analysis.py
"""

from bdqn.report.experiment import Page, part_of

FIGURES = {
    "agents.png": ("dqn", "ddqn", "boltzmann", "dropout", "noisy"),
    "posteriors.png": ("ddqn", "bootstrapped", "ls-dqn", "ucb", "bdqn", "bdqn-deep"),
}

page = Page(__file__)
page.say("# DQN, Double DQN and Bayesian DQN on CartPole")
study = page.read("sweep.toml")
page.compare(study.found, baseline="ddqn")
page.curves("curves.png", study.found)

page.say("## Every agent that learns")
agents = page.read("agents.toml")
page.compare(agents.found, baseline="ddqn")
for name, groups in FIGURES.items():
    page.curves(name, part_of(agents.found, groups))
page.write()
