"""Experiments without a sweep: studies, each of which writes one table. What is there is not run again.

EXPERIMENT/run.py        defines studies and scales, and calls ``main``
EXPERIMENT/results/      the tables, and ``scale.toml``, which says how much was run for them
"""

from __future__ import annotations

import argparse
import csv
import io
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.config.settings import nearest
from bdqn.storage.atomic import make_directory, write_file
from bdqn.storage.toml import toml_text

MARK = "scale.toml"  # beside the tables: how much was run for them

Row = Sequence[Any]
Table = tuple[tuple[str, ...], Iterator[Row]]  # columns and rows; reading the rows runs the study


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    name: str
    seeds: int
    instances: int  # where a study needs more of them than seeds
    episodes: Mapping[str, int]  # of each study

    def quick(self) -> Scale:
        """About an eighth of it."""
        halved = {study: count // 2 for study, count in self.episodes.items()}
        return Scale("quick", self.seeds // 4, self.instances // 5, halved)


Study = Callable[[Scale], Table]


def interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean over seeds and a 95 % bootstrap interval."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(len(values), size=(2000, len(values)))].mean(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)


def table_of(table: Table) -> str:
    """A study as CSV; this is what runs it."""
    columns, rows = table
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([f"{cell:.5g}" if isinstance(cell, float) else cell for cell in row])
    return text.getvalue()


def claim(out: Path, scale: Scale) -> None:
    """Make a directory this scale's: tables of two scales in one would be taken for one another."""
    mark = out / MARK
    ours = asdict(scale)
    if mark.exists() and tomllib.loads(mark.read_text(encoding="utf-8")) != ours:
        raise SystemExit(f"{out} holds other results than those of scale {scale.name} ({mark}): give another --out.")
    make_directory(out)
    write_file(mark, toml_text(ours).encode())


def run_studies(studies: Mapping[str, Study], names: Sequence[str], scale: Scale, out: Path) -> None:
    """Run those that have no table yet. A table is whole or not there, so an interrupted study begins anew."""
    claim(out, scale)
    for name in names:
        path = out / f"{name}.csv"
        if path.exists():
            print(f"{path} is there already.", flush=True)
            continue
        began = time.process_time()
        write_file(path, table_of(studies[name](scale)).encode())
        print(f"{path}: {time.process_time() - began:.0f} s of processor time", flush=True)


def main(studies: Mapping[str, Study], scales: Sequence[Scale], out: Path) -> None:
    """Run the studies that the command line names. Tables go to ``out``/SCALE."""
    by_name = {scale.name: scale for scale in scales}
    parser = argparse.ArgumentParser(description="Run studies; those that are done are not run again.")
    parser.add_argument("studies", metavar="STUDY", nargs="*", help=f"{', '.join(studies)} [all]")
    parser.add_argument("--scale", choices=by_name, default=scales[0].name, help="how much is run [%(default)s]")
    parser.add_argument("--out", type=Path, help=f"where the tables go [{out / 'SCALE'}]")
    args = parser.parse_args()
    for name in args.studies:
        if name not in studies:
            parser.error(f"there is no study {name!r}; {nearest(name, studies)}")
    run_studies(studies, args.studies or list(studies), by_name[args.scale], args.out or out / args.scale)
