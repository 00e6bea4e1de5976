"""A sweep's directory: its trials as run directories, and how far each has come.

OUT/trials.csv          which directory is which trial
OUT/trials/HASH/        one run each, as bdqn train writes it
OUT/logs/HASH.txt       what the trial's processes printed
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bdqn import durable, generation
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
        """Note which trials there are; those of an earlier, smaller sweep stay.

        A trial that has since been given other settings, or another group, gives way: its directory stays, but it is no
        longer part of the sweep.
        """
        there = {path.name for path in self.folder.iterdir()} - {"lock"}
        if there and "trials.csv" not in there:
            raise SettingError(f"{self.folder} is not empty, and holds no sweep: choose another directory.")
        for name in ("trials", "logs"):
            durable.make_directory(self.folder / name)
        names = {trial.name for trial in sweep.trials}
        rows = {_place(row): row for row in self.rows() if row["trial"] not in names}
        rows |= {_place(row): row for row in map(_row, sweep.trials)}
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
        durable.write_file(self.folder / "trials.csv", text.getvalue().encode())

    def rows(self) -> list[dict[str, str]]:
        """The trials that were ever part of this sweep."""
        path = self.folder / "trials.csv"
        if not path.exists():
            return []
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise SettingError(f"{path} is not a sweep's list of trials: choose another directory.")
            return list(reader)

    def run(self, trial: Trial) -> Path:
        return self.folder / "trials" / trial.name

    def log(self, trial: Trial) -> Path:
        return self.folder / "logs" / f"{trial.name}.txt"

    def disk(self) -> str:
        """The disk that it is on, and what is free there."""
        mount = self.folder.resolve()
        while not mount.is_mount():
            mount = mount.parent
        return f"the disk at {mount} ({shutil.disk_usage(mount).free / 1e6:,.0f} MB free)"

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
        saved, finished = self.checkpoint(trial), False
        complete = saved >= steps or (saved >= 0 and trial.schedule.get("stop_at") is not None)
        with suppress(OSError, ValueError, KeyError):
            finished = json.loads((run / "meta.json").read_text())["status"] == "finished" and complete
        return Progress(max(decisions, saved), finished, rate)

    def checkpoint(self, trial: Trial) -> int:
        """The decision of its latest checkpoint; -1 without one."""
        step = generation.latest_step(self.run(trial) / "checkpoints")
        return -1 if step is None else step


def _row(trial: Trial) -> dict[str, str]:
    return {"trial": trial.name, "group": trial.group, "agent": trial.agent, "env": trial.env, "seed": str(trial.seed)}


def _place(row: Mapping[str, str]) -> tuple[str, ...]:
    return row["group"], row["env"], row["seed"]


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 200))
        return file.read().decode().splitlines()[-1]
