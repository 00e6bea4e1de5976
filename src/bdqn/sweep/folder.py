"""A sweep's directory: its trials as run directories, and how far each has come.

OUT/trials.csv          which directory is which trial
OUT/trials/HASH/        one run each, as bdqn train writes it
OUT/logs/HASH.txt       what the trial's processes printed
"""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bdqn.config.settings import SettingError
from bdqn.storage import atomic, checkpoint_files, safe_files
from bdqn.storage.safe_files import DamagedFile, inside
from bdqn.sweep.plan import Sweep, Trial

COLUMNS = ("trial", "group", "agent", "env", "seed")
TRIALS, LOGS = "trials", "logs"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # no separators, no leading dot: nothing leads elsewhere
_SEED = re.compile(r"[0-9]{1,18}")


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
        for name in (TRIALS, LOGS):
            atomic.make_directory(inside(self.folder, name))
        names = {trial.name for trial in sweep.trials}
        rows = {_place(row): row for row in self.rows() if row["trial"] not in names}
        rows |= {_place(row): row for row in map(_row, sweep.trials)}
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
        atomic.write_file(self.folder / "trials.csv", text.getvalue().encode())

    def rows(self) -> list[dict[str, str]]:
        """The trials that were ever part of this sweep."""
        path = self.folder / "trials.csv"
        try:
            heading, *rows = list(safe_files.rows(path, safe_files.TRIALS)) or [[]]
        except (FileNotFoundError, NotADirectoryError):
            return []
        if tuple(heading) != COLUMNS:
            raise DamagedFile(f"{path} is not a sweep's list of trials: choose another directory.")
        for line, row in enumerate(rows, 2):
            if len(row) != len(COLUMNS) or not _is_trial(*row):
                raise DamagedFile(f"{path} does not describe a trial in line {line}: {row!r:.200}.")
        return [dict(zip(COLUMNS, row, strict=True)) for row in rows]

    def place(self, row: Mapping[str, str]) -> Path:
        """The directory of one of these trials."""
        return inside(self.folder, TRIALS, row["trial"])

    def run(self, trial: Trial) -> Path:
        return inside(self.folder, TRIALS, trial.name)

    def log(self, trial: Trial) -> Path:
        return inside(self.folder, LOGS) / f"{trial.name}.txt"

    def disk(self) -> str:
        """The disk that it is on, and what is free there."""
        mount = self.folder.resolve()
        while not mount.is_mount():
            mount = mount.parent
        return f"the disk at {mount} ({shutil.disk_usage(mount).free / 1e6:,.0f} MB free)"

    def message(self, trial: Trial) -> str:
        """The last thing that a trial's process said."""
        with suppress(OSError):
            return safe_files.last_line(self.log(trial))
        return ""

    def progress(self, trial: Trial, steps: int) -> Progress:
        """Read from the run's own files; whoever writes them may be another process, or gone."""
        run = self.run(trial)
        decisions, rate = 0, 0.0
        with suppress(OSError, ValueError, IndexError):
            cells = safe_files.last_line(run / "timing.csv").split(",")
            decisions, rate = int(cells[0]), float(cells[2])
        saved, finished = self.checkpoint(trial), False
        with suppress(OSError, ValueError, KeyError, TypeError):
            if safe_files.read_json(run / "meta.json")["status"] == "finished":
                finished = saved >= steps or self._has_reached_score(trial, saved)
        return Progress(max(decisions, saved), finished, rate)

    def _has_reached_score(self, trial: Trial, saved: int) -> bool:
        """Whether a run that is finished ended before its own last decision; else it was meant to be shorter."""
        if trial.schedule.get("stop_at") is None or saved < 0:
            return False
        return saved < int(safe_files.read_toml(self.run(trial) / "config.toml")["steps"])

    def checkpoint(self, trial: Trial) -> int:
        """The decision of its latest checkpoint; -1 without one."""
        step = checkpoint_files.latest_step(checkpoint_files.folder_of(self.run(trial)))
        return -1 if step is None else step


def _row(trial: Trial) -> dict[str, str]:
    return {"trial": trial.name, "group": trial.group, "agent": trial.agent, "env": trial.env, "seed": str(trial.seed)}


def _is_trial(name: str, group: str, agent: str, env: str, seed: str) -> bool:
    return bool(_NAME.fullmatch(name) and (group + agent + env).isprintable() and _SEED.fullmatch(seed))


def _place(row: Mapping[str, str]) -> tuple[str, ...]:
    return row["group"], row["env"], row["seed"]
