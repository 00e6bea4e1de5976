"""Reading run directories."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
IDENTITY = ("agent", "env", "seed", "steps")  # what every run's configuration says


class DamagedFile(ValueError):
    """A file that does not hold what a run writes there; the message names it."""


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


def read_table(path: Path, columns: Sequence[str] = ()) -> dict[str, Array]:
    """A CSV file of numbers, by column, at least with these; what is empty is NaN."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            heading, *rows = list(csv.reader(file)) or [[]]
        if not heading:
            raise ValueError("it is empty: was its run stopped before it began?")
        _require(columns, heading)
        numbers = [_numbers(row, len(heading), line) for line, row in enumerate(rows, 2)]
    except (ValueError, csv.Error) as error:
        raise DamagedFile(f"{path}: {error}") from error
    return dict(zip(heading, np.array(numbers).reshape(-1, len(heading)).T, strict=True))


def read_config(folder: Path) -> dict[str, Any]:
    """A run's configuration."""
    path = folder / "config.toml"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is no run directory (no config.toml).")
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
        _require(IDENTITY, config)
    except ValueError as error:
        raise DamagedFile(f"{path}: {error}") from error
    return config


def read_run(path: str | Path) -> Run:
    """The run in this directory."""
    folder = Path(path)
    config = read_config(folder)
    episodes = read_table(folder / "episodes.csv", ("step", "return", "length"))
    return Run(folder, config, episodes["step"], episodes["return"], episodes["length"])


def read_json(path: Path) -> Mapping[str, Any]:
    """What a JSON file says by name; empty if it is missing or damaged."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def number(cell: str) -> float:
    """A cell of a table; an empty one is NaN."""
    return float(cell) if cell else np.nan


def _numbers(row: Sequence[str], width: int, line: int) -> list[float]:
    if len(row) != width:
        raise ValueError(f"line {line} has {len(row)} cells, where the heading has {width}.")
    return [number(cell) for cell in row]


def _require(names: Sequence[str], found: Container[str]) -> None:
    lacking = [name for name in names if name not in found]
    if lacking:
        raise ValueError(f"it has no {', '.join(lacking)}.")
