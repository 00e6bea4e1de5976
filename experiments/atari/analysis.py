"""Bayesian DQN and Double DQN on Atari: every run that there is. The paper's tables are bdqn report's.

Reads the CSV files of results/ only: python experiments/atari/analysis.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bdqn.report.experiment import Page
from bdqn.sweep.plan import FULL, Sweep, read_scales

FILES = {
    "Two games, small": "small.toml",
    "The paper's 15 games": "sweep.toml",
    "Dropout, and random actions": "dropout.toml",
    "Atlantis without the frame limit": "atlantis.toml",
}


def lengths_of(scales: Mapping[str, Sweep]) -> dict[str, int]:
    """For how many decisions each game is to be run, by the scales that are named after it: 5M and so on."""
    by_length = [sweep for name, sweep in scales.items() if re.fullmatch(r"\d+M", name)]
    return {trial.env: sweep.steps for sweep in by_length for trial in sweep.trials}


page = Page(__file__)
page.say("# Bayesian DQN and Double DQN on Atari")
for title, file in FILES.items():
    page.say(f"## {title}")
    scales = read_scales(page.folder / file)
    if page.scale not in scales:
        page.say(f"{file} has no scale {page.scale}.")
        continue
    study = page.read(file, lengths_of(scales) if page.scale == FULL else None)
    page.runs(study.found)
    if study.found.groups:
        page.compare(study.found, "ddqn" if "ddqn" in study.found.groups else study.found.groups[0])
    page.curves(f"{file.removesuffix('.toml')}.png", study.found)
page.write()
