"""Read run directories."""

from __future__ import annotations

import os
from array import array
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.config.settings import SettingError
from bdqn.storage import safe_files
from bdqn.storage.safe_files import DamagedFile

Array = NDArray[np.float64]
IDENTITY = {"agent": str, "env": str, "seed": int, "steps": int}  # required in every run's configuration
TABLES = ("settings", "env_kwargs")  # optional tables in it
LARGEST = 1e100  # limit of counts and returns: their sums and squares stay finite
WINDOW = 100  # episodes in a mean return, as in the paper
EPISODES = ("step", "return", "length")  # columns of episodes.csv


@dataclass(frozen=True)
class Run:
    """One run: its configuration and its finished episodes."""

    path: Path
    config: dict[str, Any]
    step: Array  # decisions at which each episode ended
    raw_return: Array
    length: Array

    @property
    def agent(self) -> str:
        return str(self.config["agent"])

    @property
    def seed(self) -> int:
        return int(self.config["seed"])


def read_table(path: Path, columns: Sequence[str] = ()) -> dict[str, Array]:
    """Read a CSV file of numbers by column. It must have these columns; empty cells are NaN."""
    numbers = array("d")  # smaller than a list
    try:
        rows = safe_files.rows(path)
        heading = next(rows, [])
        if not heading:
            raise ValueError("the file is empty: the run may have stopped before its first row.")
        _require(columns, heading)
        safe_files.require_room(path, 4 * os.stat(path).st_size)  # a cell takes at least two bytes, a number eight
        for line, row in enumerate(rows, 2):
            numbers.extend(_numbers(row, len(heading), line))
    except SettingError:  # the message already names the file
        raise
    except ValueError as error:
        raise DamagedFile(f"{path}: {error}") from error
    return dict(zip(heading, np.array(numbers).reshape(-1, len(heading)).T, strict=True))


def read_config(folder: Path) -> dict[str, Any]:
    """Read a run's configuration."""
    path = folder / "config.toml"
    if not os.path.lexists(path):
        raise FileNotFoundError(f"{folder} is not a run directory: it has no config.toml.")
    config = safe_files.read_toml(path)
    safe_files.require(path, config, IDENTITY)
    safe_files.require(path, config, {name: dict for name in TABLES if name in config})
    return config


def read_run(path: str | Path) -> Run:
    """Read the run in this directory."""
    folder = Path(path)
    config = read_config(folder)
    episodes = read_finite(folder / "episodes.csv", EPISODES)
    return Run(folder, config, *(episodes[name] for name in EPISODES))


def learning_curve(run: Run, grid: Array, window: int = 20) -> Array:
    """Mean raw return of the last ``window`` episodes at each grid point; NaN before the first episode ends."""
    total = np.concatenate([[0.0], np.cumsum(run.raw_return)])
    ended = np.searchsorted(run.step, grid, side="right")
    first = np.maximum(ended - window, 0)
    with np.errstate(invalid="ignore"):
        return np.asarray((total[ended] - total[first]) / (ended - first))


def read_meta(folder: Path) -> Mapping[str, Any]:
    """Read a run's meta.json; empty if there is none."""
    try:
        return safe_files.read_json(folder / "meta.json")
    except FileNotFoundError:
        return {}


def read_finite(path: Path, columns: Sequence[str]) -> dict[str, Array]:
    """Read these columns of a CSV file and refuse numbers that no run can produce."""
    table = read_table(path, columns)
    for name in columns:
        if not (np.abs(table[name]) < LARGEST).all():
            raise DamagedFile(f"{path}: column {name} contains numbers that no run can produce.")
    return {name: table[name] for name in columns}


def number(cell: str) -> float:
    """The number in a cell; NaN if it is empty."""
    return float(cell) if cell else np.nan


def _numbers(row: Sequence[str], width: int, line: int) -> list[float]:
    if len(row) != width:
        raise ValueError(f"line {line} has {len(row)} cells, but the heading has {width}.")
    return [number(cell) for cell in row]


def _require(names: Sequence[str], found: Container[str]) -> None:
    lacking = [name for name in names if name not in found]
    if lacking:
        raise ValueError(f"the column {', '.join(lacking)} is missing.")
