"""Shared by experiments that keep numbers of single episodes, which `bdqn compare` does not: a row per finished run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.report.cells import from_text, write_table
from bdqn.report.load import Array, read_meta, read_run
from bdqn.storage import safe_files
from bdqn.sweep.folder import SweepFolder

KEY = ("env", "group", "seed")


def first_where(flags: NDArray[np.bool_]) -> int | str:
    """The number of the first episode, counted from one, that is so; nothing if none is."""
    return int(flags.argmax()) + 1 if flags.any() else ""


def collect(description: str | None, own: Path, columns: Sequence[str], figures: Callable[[str, Array], Any]) -> None:
    """Add the runs of the sweeps on the command line to a CSV file. A run that is there already is replaced.

    ``figures`` gives the columns after the key, from the environment's id and the episodes' returns.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folders", type=Path, nargs="+", help="what bdqn sweep wrote")
    parser.add_argument("--out", type=Path, default=own, help="[%(default)s]")
    args = parser.parse_args()
    rows = {tuple(row[name] for name in KEY): row for row in read_rows(args.out)}
    for folder in args.folders:
        sweep = SweepFolder(folder)
        for trial in sweep.rows():
            key = tuple(trial[name] for name in KEY)
            path = sweep.place(trial)
            if read_meta(path).get("status") == "finished":
                values = (*key, *figures(trial["env"], read_run(path).raw_return))
                rows[key] = dict(zip((*KEY, *columns), values, strict=True))
            else:
                print(f"{' '.join(key)} is not finished, and left out.")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_table(args.out, [(*KEY, *columns), *(row.values() for row in rows.values())])
    print(f"{args.out}: {len(rows)} runs")


def read_rows(path: Path) -> list[dict[str, str]]:
    """What ``collect`` wrote; nothing where there is no such file."""
    if not path.exists():
        return []
    heading, *rows = safe_files.rows(path)
    return [dict(zip(heading, map(from_text, row), strict=True)) for row in rows]
