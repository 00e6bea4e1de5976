"""Keep when each run first found something, and when it had solved its problem:
python experiments/exploration_suite/collect.py SWEEP_DIRECTORY...

Adds to results/episodes.csv, or to the file that ``--out`` names; a run that is there already is replaced.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from problems import bounds

from bdqn.report.collect import collect, first_where

OWN = Path(__file__).parent / "results" / "episodes.csv"
SOLVED, WINDOW = 0.8, 20  # this share of the optimum, in the mean of so many episodes
FOUND = 0.25  # this share in one episode: more than chance has, and than a small reward near the start pays


def episodes_of(env: str, returns: np.ndarray) -> tuple[int, int | str, int | str]:
    """How many episodes, the first that found something, and the one from which on the last 20 were good enough."""
    random, optimum = bounds(env)
    normalised = (returns - random) / (optimum - random)
    recent = np.convolve(normalised, np.ones(WINDOW) / WINDOW)[: len(normalised)]  # early ones count as zeros
    return len(returns), first_where(normalised > FOUND), first_where(recent >= SOLVED)


if __name__ == "__main__":
    collect(__doc__, OWN, ("episodes", "first", "solved"), episodes_of)
