"""Keep what the table needs of DeepSea's runs: python experiments/deep_sea/collect.py SWEEP_DIRECTORY...

Adds to results/solved.csv, or to the file that ``--out`` names; a run that is there already is replaced.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bdqn.report.collect import collect, first_where
from bdqn.report.growth import solved_at, treasure_found

OWN = Path(__file__).parent / "results" / "solved.csv"


def figures_of(env: str, returns: np.ndarray) -> tuple[int, int | str, int | str, str]:
    """How many episodes, the first with the treasure, the one at which bsuite calls it solved, and how it ended."""
    found = treasure_found(returns)
    return len(found), first_where(found), solved_at(returns), f"{found[-100:].mean():.2f}"


if __name__ == "__main__":
    collect(__doc__, OWN, ("episodes", "first", "solved", "last_100"), figures_of)
