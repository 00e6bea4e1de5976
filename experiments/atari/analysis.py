"""Bayesian DQN and Double DQN on Atari: every run that there is. The paper's tables are bdqn report's.

Reads the CSV files of results/ only: python experiments/atari/analysis.py
"""

from __future__ import annotations

from bdqn.report.experiment import Page
from bdqn.sweep.plan import read_scales

FILES = {
    "Pong, small": "small.toml",
    "The paper's 15 games": "sweep.toml",
    "Dropout, and random actions": "dropout.toml",
    "Atlantis without the frame limit": "atlantis.toml",
}

page = Page(__file__)
page.say("# Bayesian DQN and Double DQN on Atari")
for title, file in FILES.items():
    page.say(f"## {title}")
    if page.scale not in read_scales(page.folder / file):
        page.say(f"{file} has no scale {page.scale}.")
        continue
    study = page.read(file)
    page.runs(study.found)
    if study.found.groups:
        page.compare(study.found, "ddqn" if "ddqn" in study.found.groups else study.found.groups[0])
    page.curves(f"{file.removesuffix('.toml')}.png", study.found)
page.write()
