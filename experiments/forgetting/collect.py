"""Keep what each run still knew after a flood: python experiments/forgetting/collect.py SWEEP_DIRECTORY...

Adds to results/floods.csv, or to the file that ``--out`` names; a run that is there already is replaced.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np

import bdqn.envs  # noqa: F401  (registers the environment)
from bdqn.report.collect import collect

OWN = Path(__file__).parent / "results" / "floods.csv"
AFTER = range(1, 11)  # episodes after a flood
COLUMNS = ("episodes", "floods", "lost", *(f"after_{number}" for number in AFTER))


def figures_of(env: str, returns: np.ndarray) -> tuple[int | str, ...]:
    """How many episodes, and how many floods: episodes that went all the way.

    Then how many episodes failed between one flood and the next, on average; and which share of the way was gone in the
    first episode after a flood, in the second, and so on.
    """
    way = gym.make(env).unwrapped.way
    flooded = np.flatnonzero(returns >= way)
    share = np.minimum(returns, way) / way
    then = [share[flooded[flooded + number < len(share)] + number] for number in AFTER]
    lost = (len(returns) - flooded[0] - len(flooded)) / len(flooded) if len(flooded) else None
    means = (f"{values.mean():.3f}" if len(values) else "" for values in then)
    return len(returns), len(flooded), "" if lost is None else f"{lost:.2f}", *means


if __name__ == "__main__":
    collect(__doc__, OWN, COLUMNS, figures_of)
