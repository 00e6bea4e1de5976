"""Find runs, sweeps and stored results at or below a directory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MOST = 10_000  # directories searched below one


@dataclass(frozen=True)
class Found:
    """The sweeps and runs at a place; if there are none, the results that `bdqn compare` stored there."""

    place: Path
    sweeps: tuple[Path, ...] = ()
    runs: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        return (*self.sweeps, *self.runs, *self.kept)

    def __str__(self) -> str:
        """How many of each kind were found below the place; empty if the place itself is one of them."""
        if self.folders in ((), (self.place,)):
            return ""
        kinds = ((self.sweeps, "sweep", ""), (self.runs, "run", ""), (self.kept, "set", " of stored results"))
        counts = [f"{len(of)} {name}{'s' * (len(of) > 1)}{what}" for of, name, what in kinds if of]
        return f"{self.place}: found {' and '.join(counts)}"


def find(place: Path) -> Found:
    """Find what is at this place or at any depth below it. Links and hidden directories below it are not followed."""
    if is_sweep(place):
        return Found(place, sweeps=(place,))
    if is_run(place):
        return Found(place, runs=(place,))
    folders = list(_below(place)) if place.is_dir() else []
    sweeps, runs = tuple(filter(is_sweep, folders)), tuple(filter(is_run, folders))
    if sweeps or runs:
        return Found(place, sweeps=sweeps, runs=tuple(run for run in runs if run not in sweeps))
    return Found(place, kept=(place,) if is_kept(place) else tuple(filter(is_kept, folders)))


def distinct(folders: Iterable[Path]) -> list[Path]:
    """Every directory once, even if it was found by several paths."""
    found: dict[Path, Path] = {}
    for folder in folders:
        found.setdefault(folder.resolve(), folder)
    return list(found.values())


def is_sweep(folder: Path) -> bool:
    return os.path.lexists(folder / "trials.csv")


def is_run(folder: Path) -> bool:
    return os.path.lexists(folder / "config.toml")


def is_kept(folder: Path) -> bool:
    """Whether `bdqn compare --out` wrote this directory and it is not a sweep's own."""
    return os.path.lexists(folder / "runs.csv") and not is_sweep(folder)


def _below(place: Path) -> Iterator[Path]:
    """All directories below this one in order of their names, except those within a sweep or a run."""
    waiting, seen = [place], 0
    while waiting:
        folder = waiting.pop()
        if folder != place:
            yield folder
            if is_sweep(folder) or is_run(folder):
                continue
        seen += 1
        if seen > MOST:
            raise ValueError(
                f"{place} has more than {MOST:,} directories below it: give a directory that is closer to the runs."
            )
        with os.scandir(folder) as entries:
            names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith("."))
        waiting += [folder / name for name in reversed(names)]
