"""Runs for a report: sweeps and single run directories, read with everything that their files say."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bdqn.report.compare import Result, read_comparison
from bdqn.report.load import Array, read_run, read_table
from bdqn.sweep.folder import COLUMNS, SweepFolder

UNCOMPARED = ("seed", "steps", "threads", "device", "schedule")  # of a configuration: they make no other agent


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What `bdqn evaluate --json` printed into a file of the run's directory."""

    epsilon: float
    mean: float


@dataclass(frozen=True, eq=False)
class Record(Result):
    """A run as it is compared, and what else its files say of it."""

    config: Mapping[str, Any]
    meta: Mapping[str, Any]
    metrics: Mapping[str, Array]
    episodes: tuple[Array, Array]  # decisions at which they ended, and returns
    evaluated: tuple[Evaluated, ...]
    command: str
    path: Path

    @property
    def agent(self) -> str:
        return str(self.config["agent"])

    @property
    def settings(self) -> dict[str, Any]:
        """What makes this agent differ from another, by name."""
        top = {k: v for k, v in self.config.items() if not isinstance(v, dict) and k not in (*UNCOMPARED, "env")}
        return {**top, **self.config.get("settings", {}), **self.config.get("env_kwargs", {})}

    def evaluated_at(self, epsilon: float) -> float:
        """Its latest score with this share of random actions; NaN if nobody asked."""
        return next((e.mean for e in reversed(self.evaluated) if e.epsilon == epsilon), np.nan)


@dataclass(frozen=True)
class Runs:
    """All runs of a report, and a sentence about each that is missing or unfinished."""

    records: tuple[Record, ...]
    remarks: tuple[str, ...]

    @property
    def envs(self) -> list[str]:
        return list(dict.fromkeys(record.env for record in self.records))

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(record.group for record in self.records))

    def of(self, group: str, env: str | None = None) -> list[Record]:
        return [r for r in self.records if r.group == group and env in (None, r.env)]


@dataclass(frozen=True)
class _Place:
    """Where a run is, and what it is called."""

    path: Path
    group: str
    agent: str
    env: str
    seed: str


def read_runs(paths: Sequence[Path]) -> Runs:
    """The runs in these directories, each a sweep's or a run's."""
    places: list[_Place] = []
    for path in paths:
        places += _sweep_places(path) if (path / "trials.csv").exists() else [_run_place(path)]
    places = list(_apart(places))
    # All of them as one list of trials: whatever compares a sweep's runs compares these.
    with TemporaryDirectory() as folder:
        with (Path(folder) / "trials.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows((p.path.resolve(), p.group, p.agent, p.env, p.seed) for p in places)
        comparison = read_comparison(Path(folder))
    folders = {(p.group, p.env, int(p.seed)): p.path for p in places}
    records = (_record(result, folders[result.group, result.env, result.seed]) for result in comparison.results)
    return Runs(tuple(records), comparison.remarks)


def _sweep_places(folder: Path) -> Iterator[_Place]:
    for row in SweepFolder(folder).rows():
        yield _Place(folder / "trials" / row["trial"], row["group"], row["agent"], row["env"], row["seed"])


def _run_place(path: Path) -> _Place:
    file = path / "config.toml"
    if not file.is_file():
        problem = "is neither a run nor a sweep" if path.exists() else "does not exist"
        raise FileNotFoundError(f"{path} {problem}: give what bdqn train or bdqn sweep printed.")
    config = tomllib.loads(file.read_text(encoding="utf-8"))
    return _Place(path, str(config["agent"]), str(config["agent"]), str(config["env"]), str(config["seed"]))


def _apart(places: Sequence[_Place]) -> Iterator[_Place]:
    """Runs of one group, environment and seed that were given twice get names of their own."""
    seen: dict[tuple[str, str, str], int] = {}
    for place in places:
        key = place.group, place.env, place.seed
        seen[key] = seen.get(key, 0) + 1
        yield place if seen[key] == 1 else replace(place, group=f"{place.group} ({seen[key]})")


def _record(result: Result, folder: Path) -> Record:
    run = read_run(folder)
    return Record(
        **vars(result),
        config=run.config,
        meta=_json(folder / "meta.json"),
        metrics=read_table(folder / "metrics.csv") if (folder / "metrics.csv").exists() else {},
        episodes=(run.step, run.raw_return),
        evaluated=tuple(_evaluated(folder)),
        command=_text(folder / "command.txt"),
        path=folder,
    )


def _evaluated(folder: Path) -> Iterator[Evaluated]:
    for path in sorted(folder.glob("evaluat*.json")):
        found = _json(path)
        with suppress(KeyError, TypeError, ValueError):
            yield Evaluated(float(found["epsilon"]), float(found["mean_reward"]))


def _json(path: Path) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return ""
