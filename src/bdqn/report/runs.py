"""Runs for a report: sweeps, single run directories and kept results, read with everything that their files say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bdqn.agents import AGENTS
from bdqn.config.settings import SettingError
from bdqn.report.compare import Comparison, Listed, Result, compare, comparison_of, is_seed, read_results
from bdqn.report.find import is_kept, is_run, is_sweep
from bdqn.report.load import Array, read_config, read_meta, read_run, read_table
from bdqn.storage import safe_files
from bdqn.storage.safe_files import DamagedFile, inside
from bdqn.sweep.folder import TRIALS, SweepFolder
from bdqn.sweep.plan import suffix_of

T = TypeVar("T")
K = TypeVar("K")

UNCOMPARED = ("seed", "steps", "threads", "device", "schedule")  # of a configuration: they make no other agent
Planned = tuple[str, str, int]  # environment, group and seed
UNKNOWN = "unknown"  # the agent of a kept group that has a name of its own


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What `bdqn evaluate --keep` left in the run's directory."""

    epsilon: float
    mean: float
    step: int  # the decision after which the agent played


@dataclass(frozen=True, eq=False)
class RunRecord(Result):
    """A run as it is compared, and what else its files say of it."""

    agent: str
    config: Mapping[str, Any]
    meta: Mapping[str, Any]
    metrics: Mapping[str, Array]
    episodes: tuple[Array, Array]  # decisions at which they ended, and returns
    evaluated: tuple[Evaluated, ...]
    command: str
    path: Path
    damage: tuple[str, ...] = ()  # why what else its files say cannot be read

    @property
    def kept(self) -> bool:
        """Whether scores and a learning curve are all that is known of it, as `bdqn compare` has kept them."""
        return not self.config

    @property
    def end(self) -> int:
        """The decisions that its scores stand for: all runs that it is compared with have taken them."""
        return round(float(self.step[-1]))

    @property
    def settings(self) -> dict[str, Any]:
        """What makes this agent differ from another, by name; empty if it is not known."""
        return _settings(self.config)

    def evaluated_at(self, epsilon: float) -> float:
        """Its latest score with this share of random actions; NaN if nobody asked."""
        return next((e.mean for e in reversed(self.evaluated) if e.epsilon == epsilon), np.nan)


@dataclass(frozen=True)
class Runs:
    """All runs of a report, a sentence about each that is missing or unfinished, and which there should be."""

    records: tuple[RunRecord, ...]
    remarks: tuple[str, ...]
    planned: tuple[Planned, ...]  # kept results do not say what was planned: their runs

    @property
    def envs(self) -> list[str]:
        return list(dict.fromkeys(record.env for record in self.records))

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(record.group for record in self.records))

    @property
    def with_details(self) -> Runs:
        """Those of which there is more than scores and curves."""
        return replace(self, records=tuple(r for r in self.records if not r.kept))

    def of(self, group: str, env: str | None = None) -> list[RunRecord]:
        return [r for r in self.records if r.group == group and env in (None, r.env)]


@dataclass(frozen=True)
class _Place:
    """Where a run is, and what it is called."""

    path: Path
    group: str
    agent: str
    env: str
    seed: str
    config: Mapping[str, Any]  # empty if there is none yet
    sweep: Path | None = None  # which has named its group

    def find(self) -> Path:
        """Its directory; what a link within a sweep leads to is none."""
        return self.path if self.sweep is None else inside(self.sweep, TRIALS, self.path.name)

    @property
    def kin(self) -> tuple[str, str]:
        """With whom it is compared to name its group: another family of environments has another preset."""
        return self.group, str(self.config.get("family"))


def read_runs(paths: Sequence[Path]) -> Runs:
    """The runs in these directories, each a sweep's, a run's, or what `bdqn compare` has kept of a sweep."""
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
    """Scores and learning curves of the sweeps and runs in these directories, in the groups of a report."""
    places, damaged = _all_places(paths)
    found = _compared(places) if places else Comparison((), ())
    return replace(found, remarks=(*damaged, *found.remarks))


def _joined(first: Runs, second: Runs) -> Runs:
    return Runs((*first.records, *second.records), (*first.remarks, *second.remarks), (*first.planned, *second.planned))


# --- sweeps and runs ----------------------------------------------------------------------------------------------


def _all_places(paths: Sequence[Path]) -> tuple[list[_Place], list[str]]:
    """Every run with the name of its group, and a sentence about each of which not even that is known."""
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
    remarks = [remark for record in records for remark in (*_of_another_time(record), *_damaged(record))]
    planned = tuple((place.env, place.group, int(place.seed)) for place in places)
    return Runs(tuple(map(_of_its_time, records)), (*comparison.remarks, *remarks), planned)


def _places(path: Path) -> Iterator[_Place]:
    if is_sweep(path):
        for row in SweepFolder(path).rows():
            names = (row["group"], row["agent"], row["env"], row["seed"])
            place = _Place(path / TRIALS / row["trial"], *names, config={}, sweep=path)
            yield replace(place, config=_config(place))
        return
    if not is_run(path):
        problem = "holds neither runs nor sweeps" if path.exists() else "does not exist"
        raise FileNotFoundError(
            f"{path} {problem}: give the directory that bdqn sweep printed, a run's, or one with runs below it."
        )
    config = read_config(path)
    agent, env, seed = (str(config[name]) for name in ("agent", "env", "seed"))
    yield _Place(path, agent, agent, env, seed, config)


def _split(places: Sequence[_Place]) -> Iterator[_Place]:
    """Single runs whose settings differ get the names that a sweep's grid would give them.

    A setting counts if it differs between runs on one environment; a preset that does stands for all its values.
    """
    known = [place for place in places if place.config]
    differing: dict[tuple[str, ...], dict[str, None]] = {}
    for kin, mine in grouped(known, lambda place: place.kin).items():
        alike = grouped(mine, lambda place: (place.env,)).values()
        presets = [name for runs in alike for name in _differing(runs) if name == "preset"]
        more = grouped(mine, lambda place: (place.env, str(place.config.get("preset")))).values()
        differing[kin] = dict.fromkeys([*presets, *(name for runs in more for name in _differing(runs))])
    for place in places:
        settings = _settings(place.config)
        chosen = {name: settings.get(name) for name in differing[place.kin]} if place.sweep is None else {}
        yield replace(place, group=place.group + suffix_of(chosen))


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Those of the same key together, in the order in which they come."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def _differing(places: Sequence[_Place]) -> list[str]:
    """The settings that not all of these runs have alike."""
    first, *others = (_settings(place.config) for place in places)
    names = dict.fromkeys(name for settings in (first, *others) for name in settings if not is_seed(name))
    return [name for name in names if any(settings.get(name) != first.get(name) for settings in others)]


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What makes an agent differ from another, by name."""
    top = {k: v for k, v in config.items() if not isinstance(v, dict) and k not in (*UNCOMPARED, "env")}
    return {**top, **config.get("settings", {}), **config.get("env_kwargs", {})}


def _apart(places: Iterable[_Place]) -> Iterator[_Place]:
    """Runs get names of their own if their group has that seed already, or other settings: those of another sweep."""
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
    """A group's name, and those that it gets where that is taken."""
    return chain([group], (f"{group} ({number})" for number in count(2)))


def _record(result: Result, place: _Place) -> RunRecord:
    folder = place.path
    run = read_run(folder)
    damage: list[str] = []
    metrics: Mapping[str, Array] = _readable(lambda: read_table(folder / "metrics.csv", ("step",)), {}, damage)
    command = _readable(partial(_commands, folder / "command.txt"), "", damage)
    evaluated = [_readable(partial(_evaluated, path), None, damage) for path in sorted(folder.glob("evaluat*.json"))]
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
    """What a file of a run says; if it cannot be read, why not: its scores are known all the same."""
    try:
        return read()
    except FileNotFoundError:
        pass
    except (OSError, SettingError) as error:
        problems.append(str(error))
    return otherwise


def _damaged(record: RunRecord) -> Iterator[str]:
    for problem in record.damage:
        yield f"{record.label}: a file of it is left out. {problem}"


def _of_its_time(record: RunRecord) -> RunRecord:
    """Without evaluations of another decision than the one that its scores stand for."""
    return replace(record, evaluated=tuple(e for e in record.evaluated if e.step == record.end))


def _of_another_time(record: RunRecord) -> Iterator[str]:
    for found in record.evaluated:
        if found.step != record.end:
            again = f" bdqn evaluate {record.path} --epsilon {found.epsilon:g} --keep makes a new one."
            yield (
                f"{record.label}: its evaluation at epsilon {found.epsilon:g} is of decision {found.step:,}, where "
                f"scores stand for {record.end:,}, and is left out.{again if found.step < record.decisions else ''}"
            )


def _config(place: _Place) -> Mapping[str, Any]:
    """A run's configuration; empty if there is none, or none that can be read."""
    with suppress(FileNotFoundError, DamagedFile):
        return read_config(place.find())
    return {}


def _commands(path: Path) -> str:
    return "\n".join(map(safe_files.printable, safe_files.read_text(path, safe_files.NOTES).splitlines()))


def _evaluated(path: Path) -> Evaluated:
    found = safe_files.read_json(path, safe_files.EVALUATION)
    try:
        return Evaluated(float(found["epsilon"]), float(found["mean_reward"]), int(found["step"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedFile(f"{path} holds no evaluation: {type(error).__name__}: {error}.") from error


# --- kept results -------------------------------------------------------------------------------------------------


def _read_kept(folder: Path, others: Runs) -> Runs:
    """Scores and curves; a group that the others have on the same environment gets a name of its own.

    It may have had other settings, and other lengths.
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
    lacking = "scores and learning curves only; settings, posterior diagnostics and provenance are not in its files."
    planned = tuple((r.env, r.group, r.seed) for r in records)
    return Runs(records, (f"{folder}: {lacking}", *comparison_of(records, ()).remarks), planned)


def _agent_of(group: str) -> str:
    """The agent that a sweep's group, or a grid's, is named after."""
    agent, *chosen = group.split(" ")
    return agent if agent in AGENTS and all("=" in word for word in chosen) else UNKNOWN


def _other_lengths(runs: Runs) -> Iterator[str]:
    """A sentence about every environment where kept scores and others are over different numbers of decisions."""
    for env in runs.envs:
        ends = sorted({round(float(f"{r.step[-1]:g}")) for r in runs.records if r.env == env})  # as they are kept
        if len(ends) > 1:
            yield f"{env}: scores are over {' or '.join(f'{end:,}' for end in ends)} decisions, and do not compare."
