"""Keep what the table needs of DeepSea's runs: python experiments/deep_sea/collect.py SWEEP_DIRECTORY...

Adds to results/solved.csv, or to the file that ``--out`` names; a run that is there already is replaced.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np

from bdqn.report.load import read_run
from bdqn.sweep.folder import SweepFolder

OWN = Path(__file__).parent / "results" / "solved.csv"
COLUMNS = ("env", "group", "seed", "episodes", "first", "solved", "last_100")


def first_where(flags: np.ndarray) -> int | str:
    """The number of the first episode, counted from one, that is so; nothing if none is."""
    return int(flags.argmax()) + 1 if flags.any() else ""


def figures_of(returns: np.ndarray) -> tuple[int, int | str, int | str, str]:
    """How many episodes, the first with the treasure, the one at which bsuite calls it solved, and how it ended.

    bsuite: solved as soon as fewer than nine tenths of all episodes so far were bad.
    """
    found = returns > 0.5
    bad = np.cumsum(~found) / np.arange(1, len(found) + 1)
    return len(found), first_where(found), first_where(bad < 0.9), f"{found[-100:].mean():.2f}"


def is_finished(run: Path) -> bool:
    meta = run / "meta.json"
    return meta.exists() and json.loads(meta.read_text())["status"] == "finished"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="what bdqn sweep wrote")
    parser.add_argument("--out", type=Path, default=OWN, help="[%(default)s]")
    args = parser.parse_args()
    rows = {}
    if args.out.exists():
        with args.out.open(newline="") as file:
            rows = {(row["env"], row["group"], row["seed"]): row for row in csv.DictReader(file)}
    for folder in args.folders:
        for trial in SweepFolder(folder).rows():
            key = (trial["env"], trial["group"], trial["seed"])
            path = folder / "trials" / trial["trial"]
            if not is_finished(path):
                print(f"{' '.join(key)} is not finished, and left out.")
                continue
            run = read_run(path)
            rows[key] = dict(zip(COLUMNS, (*key, *figures_of(run.raw_return)), strict=True))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
    print(f"{args.out}: {len(rows)} runs")


if __name__ == "__main__":
    main()
