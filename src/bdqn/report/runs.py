"""Runs for a report: sweeps, single run directories and stored results, with all details in their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bdqn.agents import AGENTS
from bdqn.config.settings import SettingError
from bdqn.qlearning.calibration import Coverage
from bdqn.report.compare import Comparison, Listed, Result, compare, comparison_of, is_seed, read_results
from bdqn.report.find import is_kept, is_run, is_sweep
from bdqn.report.load import Array, read_config, read_meta, read_run, read_table
from bdqn.storage import safe_files
from bdqn.storage.safe_files import DamagedFile, inside
from bdqn.sweep.folder import TRIALS, SweepFolder
from bdqn.sweep.plan import suffix_of

T = TypeVar("T")
K = TypeVar("K")

UNCOMPARED = ("seed", "steps", "threads", "device", "schedule")  # parts of a configuration that do not define the agent
Planned = tuple[str, str, int]  # environment, group and seed
UNKNOWN = "unknown"  # the agent of a stored group with a custom name


@dataclass(frozen=True, eq=False)
class Evaluated:
    """An evaluation that `bdqn evaluate --keep` stored in the run's directory."""

    epsilon: float
    mean: float
    step: int  # decisions that the agent had been trained for
    coverage: Coverage | None = None  # of the posterior's own intervals; None: it has none
    calibrated: Coverage | None = None
    returns: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class RunRecord(Result):
    """A run's result, with everything else that its files contain."""

    agent: str
    config: Mapping[str, Any]
    meta: Mapping[str, Any]
    metrics: Mapping[str, Array]
    episodes: tuple[Array, Array]  # decisions at which episodes ended, and their returns
    evaluated: tuple[Evaluated, ...]
    command: str
    path: Path
    damage: tuple[str, ...] = ()  # why some of its files cannot be read

    @property
    def kept(self) -> bool:
        """Whether only scores and a learning curve are known, as `bdqn compare` stores them."""
        return not self.config

    @property
    def end(self) -> int:
        """The decisions that its scores refer to: all runs that it is compared with have taken them."""
        return round(float(self.step[-1]))

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that define the agent, by name; empty if unknown."""
        return _settings(self.config)

    def evaluated_at(self, epsilon: float) -> float:
        """The latest evaluation at this epsilon; NaN if there is none."""
        return next((e.mean for e in reversed(self.evaluated) if e.epsilon == epsilon), np.nan)


@dataclass(frozen=True)
class Runs:
    """All runs of a report, remarks on missing or unfinished ones, and which runs were planned."""

    records: tuple[RunRecord, ...]
    remarks: tuple[str, ...]
    planned: tuple[Planned, ...]  # for stored results, which do not contain the plan: their runs

    @property
    def envs(self) -> list[str]:
        return list(dict.fromkeys(record.env for record in self.records))

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(record.group for record in self.records))

    @property
    def with_details(self) -> Runs:
        """The runs with more than scores and curves."""
        return replace(self, records=tuple(r for r in self.records if not r.kept))

    def of(self, group: str, env: str | None = None) -> list[RunRecord]:
        return [r for r in self.records if r.group == group and env in (None, r.env)]


@dataclass(frozen=True)
class _Place:
    """Where a run is, and its names."""

    path: Path
    group: str
    agent: str
    env: str
    seed: str
    config: Mapping[str, Any]  # empty if there is none yet
    sweep: Path | None = None  # the sweep that named its group

    def find(self) -> Path:
        """The run's directory. Links within a sweep are refused."""
        return self.path if self.sweep is None else inside(self.sweep, TRIALS, self.path.name)

    @property
    def naming_key(self) -> tuple[str, str]:
        """Runs with equal keys are compared to name their groups. Families of environments have their own presets."""
        return self.group, str(self.config.get("family"))


def read_runs(paths: Sequence[Path]) -> Runs:
    """Read the runs in these directories: sweeps, single runs, or results that `bdqn compare` stored."""
    kept = [path for path in paths if is_kept(path)]
    places, damaged = _all_places([path for path in paths if path not in kept])
    runs = _read_places(places) if places else Runs((), (), ())
    for path in kept:
        try:
            runs = _joined(runs, _read_kept(path, runs))
        except SettingError as error:
            damaged.append(f"{path} is missing: {error}")
    return replace(runs, remarks=(*damaged, *runs.remarks, *(_other_lengths(runs) if kept else ())))


def compare_runs(paths: Sequence[Path]) -> Comparison:
    """Scores and learning curves of the sweeps and runs in these directories, grouped as in a report."""
    places, damaged = _all_places(paths)
    found = _compared(places) if places else Comparison((), ())
    return replace(found, remarks=(*damaged, *found.remarks))


def _joined(first: Runs, second: Runs) -> Runs:
    return Runs((*first.records, *second.records), (*first.remarks, *second.remarks), (*first.planned, *second.planned))


# --- sweeps and runs ----------------------------------------------------------------------------------------------


def _all_places(paths: Sequence[Path]) -> tuple[list[_Place], list[str]]:
    """Every run with the name of its group, and a remark on each directory that cannot be read."""
    places: list[_Place] = []
    damaged = []
    for path in paths:
        try:
            places += _places(path)
        except SettingError as error:
            damaged.append(f"{path} is missing: {error}")
    return list(_apart(_split(places))), damaged


def _compared(places: Sequence[_Place]) -> Comparison:
    return compare(Listed(p.find, p.group, p.env, int(p.seed)) for p in places)


def _read_places(places: Sequence[_Place]) -> Runs:
    comparison = _compared(places)
    found = {(p.group, p.env, int(p.seed)): p for p in places}
    records = [_record(result, found[result.group, result.env, result.seed]) for result in comparison.results]
    remarks = [remark for record in records for remark in (*_stale_evaluations(record), *_damaged(record))]
    planned = tuple((place.env, place.group, int(place.seed)) for place in places)
    return Runs(tuple(map(_current_evaluations, records)), (*comparison.remarks, *remarks), planned)


def _places(path: Path) -> Iterator[_Place]:
    if is_sweep(path):
        for row in SweepFolder(path).rows():
            names = (row["group"], row["agent"], row["env"], row["seed"])
            place = _Place(path / TRIALS / row["trial"], *names, config={}, sweep=path)
            yield replace(place, config=_config(place))
        return
    if not is_run(path):
        problem = "contains neither runs nor sweeps" if path.exists() else "does not exist"
        raise FileNotFoundError(
            f"{path} {problem}: give the directory that bdqn sweep printed, a run's, or one with runs below it."
        )
    config = read_config(path)
    agent, env, seed = (str(config[name]) for name in ("agent", "env", "seed"))
    yield _Place(path, agent, agent, env, seed, config)


def _split(places: Sequence[_Place]) -> Iterator[_Place]:
    """Name the groups of single runs as a sweep's grid would, by the settings in which they differ.

    A setting counts if it differs between runs on one environment. If the preset differs, it stands for all its values.
    """
    known = [place for place in places if place.config]
    differing: dict[tuple[str, ...], dict[str, None]] = {}
    for key, mine in grouped(known, lambda place: place.naming_key).items():
        alike = grouped(mine, lambda place: (place.env,)).values()
        presets = [name for runs in alike for name in _differing(runs) if name == "preset"]
        more = grouped(mine, lambda place: (place.env, str(place.config.get("preset")))).values()
        differing[key] = dict.fromkeys([*presets, *(name for runs in more for name in _differing(runs))])
    for place in places:
        settings = _settings(place.config)
        chosen = {name: settings.get(name) for name in differing[place.naming_key]} if place.sweep is None else {}
        yield replace(place, group=place.group + suffix_of(chosen))


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by key, in their original order."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def _differing(places: Sequence[_Place]) -> list[str]:
    """The settings in which these runs differ."""
    first, *others = (_settings(place.config) for place in places)
    names = dict.fromkeys(name for settings in (first, *others) for name in settings if not is_seed(name))
    return [name for name in names if any(settings.get(name) != first.get(name) for settings in others)]


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that define an agent, by name."""
    top = {k: v for k, v in config.items() if not isinstance(v, dict) and k not in (*UNCOMPARED, "env")}
    return {**top, **config.get("settings", {}), **config.get("env_kwargs", {})}


def _apart(places: Iterable[_Place]) -> Iterator[_Place]:
    """Rename the group of a run if the group already has its seed, or has other settings in another sweep."""
    members: dict[tuple[str, str], list[_Place]] = {}

    def is_free(group: str, place: _Place) -> bool:
        mine = members.get((group, place.env), [])
        theirs = [member for member in mine if member.sweep != place.sweep and member.config and place.config]
        return place.seed not in {member.seed for member in mine} and not (theirs and _differing([place, theirs[0]]))

    for place in places:
        group = next(name for name in _numbered(place.group) if is_free(name, place))
        members.setdefault((group, place.env), []).append(place)
        yield replace(place, group=group)


def _numbered(group: str) -> Iterator[str]:
    """A group's name, then the alternatives if it is taken."""
    return chain([group], (f"{group} ({number})" for number in count(2)))


def _record(result: Result, place: _Place) -> RunRecord:
    folder = place.path
    run = read_run(folder)
    damage: list[str] = []
    metrics: Mapping[str, Array] = _readable(lambda: read_table(folder / "metrics.csv", ("step",)), {}, damage)
    command = _readable(partial(_commands, folder / "command.txt"), "", damage)
    evaluated = [
        _readable(partial(read_evaluation, path), None, damage) for path in sorted(folder.glob("evaluat*.json"))
    ]
    return RunRecord(
        **vars(result),
        agent=place.agent,
        config=run.config,
        meta=read_meta(folder),
        metrics=metrics,
        episodes=(run.step, run.raw_return),
        evaluated=tuple(found for found in evaluated if found),
        command=command.strip(),
        path=folder,
        damage=tuple(damage),
    )


def _readable(read: Callable[[], T], otherwise: T, problems: list[str]) -> T:
    """Read a file of a run. If that fails, note why: the run's scores are known all the same."""
    try:
        return read()
    except FileNotFoundError:
        pass
    except (OSError, SettingError) as error:
        problems.append(str(error))
    return otherwise


def _damaged(record: RunRecord) -> Iterator[str]:
    for problem in record.damage:
        yield f"{record.label}: one of its files is left out. {problem}"


def _current_evaluations(record: RunRecord) -> RunRecord:
    """The run without evaluations at other decisions than those that its scores refer to."""
    return replace(record, evaluated=tuple(e for e in record.evaluated if e.step == record.end))


def _stale_evaluations(record: RunRecord) -> Iterator[str]:
    for found in record.evaluated:
        if found.step != record.end:
            again = f" Repeat it: bdqn evaluate {record.path} --epsilon {found.epsilon:g} --keep."
            yield (
                f"{record.label}: its evaluation at epsilon {found.epsilon:g} is from decision {found.step:,}, but "
                f"scores refer to {record.end:,}. It is left out.{again if found.step < record.decisions else ''}"
            )


def _config(place: _Place) -> Mapping[str, Any]:
    """A run's configuration; empty if there is none, or if it cannot be read."""
    with suppress(FileNotFoundError, DamagedFile):
        return read_config(place.find())
    return {}


def _commands(path: Path) -> str:
    return safe_files.printable_lines(safe_files.read_text(path, safe_files.NOTES))


def read_evaluation(path: Path) -> Evaluated:
    """Read an evaluation that `bdqn evaluate --keep` stored."""
    found = safe_files.read_json(path, safe_files.EVALUATION)
    try:
        returns = tuple(map(float, found.get("returns", ())))
        if not all(map(isfinite, returns)):
            raise ValueError("a return is not finite")
        return Evaluated(
            float(found["epsilon"]),
            float(found["mean_reward"]),
            int(found["step"]),
            _coverage(found.get("coverage")),
            _coverage(found.get("calibrated_coverage")),
            returns,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedFile(f"{path} contains no evaluation: {type(error).__name__}: {error}.") from error


def _coverage(found: Mapping[str, Any] | None) -> Coverage | None:
    """What an evaluation says of intervals; nothing in files of earlier versions."""
    return None if found is None else Coverage(float(found["level"]), float(found["held"]), int(found["episodes"]))


# --- stored results -----------------------------------------------------------------------------------------------


def _read_kept(folder: Path, others: Runs) -> Runs:
    """Read stored scores and curves. A group that other runs have on the same environment is renamed.

    Its settings and its length may differ from theirs.
    """
    taken: set[tuple[str, ...]] = {(record.group, record.env) for record in others.records}
    nothing = np.zeros(0)
    records = tuple(
        RunRecord(
            **{**vars(result), "group": next(n for n in _numbered(result.group) if (n, result.env) not in taken)},
            agent=_agent_of(result.group),
            config={},
            meta={},
            metrics={},
            episodes=(nothing, nothing),
            evaluated=(),
            command="",
            path=folder,
        )
        for result in read_results(folder).results
    )
    lacking = "only scores and learning curves. These files contain no settings, posterior diagnostics or provenance."
    planned = tuple((r.env, r.group, r.seed) for r in records)
    return Runs(records, (f"{folder}: {lacking}", *comparison_of(records, ()).remarks), planned)


def _agent_of(group: str) -> str:
    """The agent in a group's name."""
    agent, *chosen = group.split(" ")
    return agent if agent in AGENTS and all("=" in word for word in chosen) else UNKNOWN


def _other_lengths(runs: Runs) -> Iterator[str]:
    """A remark on every environment whose stored and other scores cover different numbers of decisions."""
    for env in runs.envs:
        ends = sorted({round(float(f"{r.step[-1]:g}")) for r in runs.records if r.env == env})  # as they are stored
        if len(ends) > 1:
            yield f"{env}: scores cover {' or '.join(f'{end:,}' for end in ends)} decisions and cannot be compared."
