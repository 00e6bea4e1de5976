"""A sweep's directory: a run directory for each trial, and the trials' progress.

OUT/trials.csv          maps directories to trials
OUT/trials/HASH/        one run each, as written by bdqn train
OUT/logs/HASH.txt       output of the trial's processes
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
from bdqn.runs.directory import LOCK
from bdqn.storage import atomic, checkpoint_files, safe_files
from bdqn.storage.atomic import TEMPORARY
from bdqn.storage.safe_files import DamagedFile, inside
from bdqn.sweep.plan import Sweep, Trial

COLUMNS = ("trial", "group", "agent", "env", "seed")
LIST, TRIALS, LOGS = "trials.csv", "trials", "logs"
BEFORE_A_SWEEP = {LOCK, f"{TEMPORARY}{LIST}"}  # what a sweep leaves that ended before it wrote its list
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # no separator, no leading dot: it cannot leave the folder
_SEED = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Progress:
    """Progress of a trial."""

    decisions: int
    finished: bool
    per_second: float  # at the latest row of timing.csv; 0 before the first


class SweepFolder:
    """The directory of a sweep."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self, sweep: Sweep) -> None:
        """Write trials.csv, which marks the directory as a sweep's. Trials of an earlier, smaller sweep stay in it.

        A trial whose settings or group have changed is replaced. Its directory stays, but is no longer part of the
        sweep.
        """
        there = {path.name for path in self.folder.iterdir()} - BEFORE_A_SWEEP
        if there and LIST not in there:
            raise SettingError(f"{self.folder} is not empty and holds no sweep: choose another directory.")
        places = [inside(self.folder, name) for name in (TRIALS, LOGS)]
        names = {trial.name for trial in sweep.trials}
        rows = {_place(row): row for row in self.rows() if row["trial"] not in names}
        rows |= {_place(row): row for row in map(_row, sweep.trials)}
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
        atomic.write_file(self.folder / LIST, text.getvalue().encode())
        for place in places:  # after the list: without it, the next command would refuse the directory
            atomic.make_directory(place)

    def rows(self) -> list[dict[str, str]]:
        """Read the rows of trials.csv."""
        path = self.folder / LIST
        try:
            heading, *rows = list(safe_files.rows(path, safe_files.TRIALS)) or [[]]
        except (FileNotFoundError, NotADirectoryError):
            return []
        if tuple(heading) != COLUMNS:
            raise DamagedFile(f"{path} is not a sweep's list of trials: choose another directory.")
        for line, row in enumerate(rows, 2):
            if len(row) != len(COLUMNS) or not _is_trial(*row):
                raise DamagedFile(f"{path} has no valid trial in line {line}: {row!r:.200}.")
        return [dict(zip(COLUMNS, row, strict=True)) for row in rows]

    def place(self, row: Mapping[str, str]) -> Path:
        """Return the directory of the trial in a row."""
        return inside(self.folder, TRIALS, row["trial"])

    def run(self, trial: Trial) -> Path:
        return inside(self.folder, TRIALS, trial.name)

    def log(self, trial: Trial) -> Path:
        return inside(self.folder, LOGS) / f"{trial.name}.txt"

    def disk(self) -> str:
        """Describe the disk of this directory and its free space."""
        mount = self.folder.resolve()
        while not mount.is_mount():
            mount = mount.parent
        return f"the disk at {mount} ({shutil.disk_usage(mount).free / 1e6:,.0f} MB free)"

    def message(self, trial: Trial) -> str:
        """Return the last line of a trial's log."""
        with suppress(OSError):
            return safe_files.last_line(self.log(trial))
        return ""

    def progress(self, trial: Trial) -> Progress:
        """Read a trial's progress from its files. Its process may be running or gone.

        At its last decision itself, work may be due that an interruption prevented, such as an evaluation. So there,
        unlike beyond it, its run must say that it is finished.
        """
        run = self.run(trial)
        decisions, rate = 0, 0.0
        with suppress(OSError, ValueError, IndexError):
            cells = safe_files.last_line(run / "timing.csv").split(",")
            decisions, rate = int(cells[0]), float(cells[2])
        saved = self.checkpoint(trial)
        # Whatever stopped a trial that was meant to be longer, it has gone further than is asked for now.
        finished = saved - trial.num_envs >= trial.steps
        with suppress(OSError, ValueError, KeyError, TypeError):
            if not finished and safe_files.read_json(run / "meta.json")["status"] == "finished":
                finished = saved >= trial.steps or self._had_enough(trial, saved)
        return Progress(max(decisions, saved), finished, rate)

    def _had_enough(self, trial: Trial, saved: int) -> bool:
        """Whether a finished run stopped early, as its schedule says. Otherwise it was configured to be shorter."""
        if saved < 0 or not trial.may_end_early:
            return False
        return saved < int(safe_files.read_toml(self.run(trial) / "config.toml")["steps"])

    def checkpoint(self, trial: Trial) -> int:
        """Return the decision of a trial's latest checkpoint, or -1 without one."""
        step = checkpoint_files.latest_step(checkpoint_files.folder_of(self.run(trial)))
        return -1 if step is None else step


def _row(trial: Trial) -> dict[str, str]:
    return {"trial": trial.name, "group": trial.group, "agent": trial.agent, "env": trial.env, "seed": str(trial.seed)}


def _is_trial(name: str, group: str, agent: str, env: str, seed: str) -> bool:
    return bool(_NAME.fullmatch(name) and (group + agent + env).isprintable() and _SEED.fullmatch(seed))


def _place(row: Mapping[str, str]) -> tuple[str, ...]:
    return row["group"], row["env"], row["seed"]
