"""Reading run directories."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One run: how it was configured, and every finished episode."""

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


def read_table(path: Path) -> dict[str, Array]:
    """A CSV file of numbers, by column; what is empty is NaN."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    if not rows:
        raise ValueError(f"{path} is empty: was its run stopped before it began?")
    columns = np.array([[number(cell) for cell in row] for row in rows[1:]]).reshape(-1, len(rows[0])).T
    return dict(zip(rows[0], columns, strict=True))


def read_run(path: str | Path) -> Run:
    """The run in this directory."""
    folder = Path(path)
    if not (folder / "config.toml").is_file():
        raise FileNotFoundError(f"{folder} is no run directory (no config.toml).")
    config = tomllib.loads((folder / "config.toml").read_text())
    episodes = read_table(folder / "episodes.csv")
    return Run(folder, config, episodes["step"], episodes["return"], episodes["length"])


def number(cell: str) -> float:
    """A cell of a table; an empty one is NaN."""
    return float(cell) if cell else np.nan
