"""A sweep's directory: its trials as run directories, and how far each has come.

OUT/trials.csv          which directory is which trial
OUT/trials/HASH/        one run each, as bdqn train writes it
OUT/logs/HASH.txt       what the trial's processes printed
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bdqn import durable
from bdqn.settings import SettingError
from bdqn.sweep.plan import Sweep, Trial

COLUMNS = ("trial", "group", "agent", "env", "seed")


@dataclass(frozen=True)
class Progress:
    """How far a trial has come."""

    decisions: int
    finished: bool
    per_second: float  # at the latest row of timing.csv; 0 before the first


class SweepFolder:
    """Where a sweep's trials are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self, sweep: Sweep) -> None:
        """Note which trials there are; those of an earlier, smaller sweep stay."""
        there = {path.name for path in self.folder.iterdir()} - {"lock"}
        if there and "trials.csv" not in there:
            raise SettingError(f"{self.folder} is not empty, and holds no sweep: choose another directory.")
        for name in ("trials", "logs"):
            durable.make_directory(self.folder / name)
        rows = {row["trial"]: row for row in self.rows()}
        rows |= {trial.name: _row(trial) for trial in sweep.trials}
        lines = [",".join(COLUMNS), *(_csv_line(row[name] for name in COLUMNS) for row in rows.values())]
        durable.write_file(self.folder / "trials.csv", ("\n".join(lines) + "\n").encode())

    def rows(self) -> list[dict[str, str]]:
        """The trials that were ever part of this sweep."""
        path = self.folder / "trials.csv"
        if not path.exists():
            return []
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    def run(self, trial: Trial) -> Path:
        return self.folder / "trials" / trial.name

    def log(self, trial: Trial) -> Path:
        return self.folder / "logs" / f"{trial.name}.txt"

    def message(self, trial: Trial) -> str:
        """The last thing that a trial's process said."""
        with suppress(OSError):
            lines = self.log(trial).read_text(errors="replace").splitlines()
            return next((line for line in reversed(lines) if line.strip()), "")
        return ""

    def progress(self, trial: Trial, steps: int) -> Progress:
        """Read from the run's own files; whoever writes them may be another process, or gone."""
        run = self.run(trial)
        decisions, rate = 0, 0.0
        with suppress(OSError, ValueError, IndexError):
            cells = _last_line(run / "timing.csv").split(",")
            decisions, rate = int(cells[0]), float(cells[2])
        finished = False
        with suppress(OSError, ValueError, KeyError):
            ended = json.loads((run / "meta.json").read_text())["status"] == "finished"
            finished = ended and self.checkpoint(trial) >= steps
        return Progress(max(decisions, self.checkpoint(trial)), finished, rate)

    def checkpoint(self, trial: Trial) -> int:
        """The decision of its latest checkpoint; -1 without one."""
        names = (path.name for path in (self.run(trial) / "checkpoints").glob("gen-*"))
        return max((int(name[4:16]) for name in names if name[4:16].isdigit()), default=-1)


def _row(trial: Trial) -> dict[str, str]:
    return {"trial": trial.name, "group": trial.group, "agent": trial.agent, "env": trial.env, "seed": str(trial.seed)}


def _csv_line(cells: Iterable[str]) -> str:
    return ",".join(f'"{cell}"' if "," in cell else cell for cell in cells)


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 200))
        return file.read().decode().splitlines()[-1]
