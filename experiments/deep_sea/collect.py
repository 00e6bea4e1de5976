"""Keep what the table needs of DeepSea's runs: python experiments/deep_sea/collect.py SWEEP_DIRECTORY...

Adds to results/solved.csv, or to the file that ``--out`` names; a run that is there already is replaced.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bdqn.report.collect import collect, first_where

OWN = Path(__file__).parent / "results" / "solved.csv"


def figures_of(env: str, returns: np.ndarray) -> tuple[int, int | str, int | str, str]:
    """How many episodes, the first with the treasure, the one at which bsuite calls it solved, and how it ended.

    bsuite: solved as soon as fewer than nine tenths of all episodes so far were bad.
    """
    found = returns > 0.5
    bad = np.cumsum(~found) / np.arange(1, len(found) + 1)
    return len(found), first_where(found), first_where(bad < 0.9), f"{found[-100:].mean():.2f}"


if __name__ == "__main__":
    collect(__doc__, OWN, ("episodes", "first", "solved", "last_100"), figures_of)
