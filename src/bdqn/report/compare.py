"""Comparisons: runs with their scores and learning curves.

A comparison is read from run directories, or from two files that are small enough to be stored with an experiment:
runs.csv (scores) and curves.csv (learning curves).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bdqn.report import stats
from bdqn.report.cells import from_text, write_table
from bdqn.report.load import LARGEST, WINDOW, Array, Run, learning_curve, number, read_finite, read_meta, read_run
from bdqn.storage import checkpoint_files, safe_files
from bdqn.storage.safe_files import DamagedFile
from bdqn.sweep.folder import SweepFolder

POINTS = 200  # of the curve whose area is computed
KEPT = 100  # points of the curve that is stored and drawn
SCORES = ("final", "area", "evaluation")  # each is a field of Result and a column of runs.csv
RUN_COLUMNS = ("env", "group", "seed", "decisions", *SCORES)
EVALUATION = ("step", "mean_reward")  # columns of evaluations.csv
CURVE_COLUMNS = ("env", "group", "seed", "step", "return")


@dataclass(frozen=True, eq=False)
class Result:
    """One run, scored over the decisions that all runs of its environment have taken; NaN if unknown."""

    env: str
    group: str
    seed: int
    decisions: int  # taken by the run
    final: float  # mean return of the last episodes, with exploration
    area: float  # mean height of the learning curve
    evaluation: float  # the latest greedy evaluation
    step: Array  # decisions of the learning curve
    curve: Array  # mean return of the last episodes; NaN before the first episode ends

    @property
    def label(self) -> str:
        return label_of(self.group, self.env, self.seed)


def label_of(group: str, env: str, seed: int | str) -> str:
    """The name of a trial in messages."""
    return f"{group} on {env}, seed {seed}"


@dataclass(frozen=True)
class Comparison:
    """All runs that can be compared, with remarks on those that cannot and on anything else worth knowing."""

    results: tuple[Result, ...]
    remarks: tuple[str, ...]

    @property
    def envs(self) -> list[str]:
        return list(dict.fromkeys(result.env for result in self.results))

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(result.group for result in self.results))

    def of(self, group: str, env: str) -> list[Result]:
        return [result for result in self.results if (result.group, result.env) == (group, env)]

    def scores(self, group: str, kind: str) -> dict[str, dict[int, float]]:
        """Scores of a group by environment and seed.

        Environments with an unknown score are left out, and so are those with a single seed, which has no interval.
        """
        found = {}
        for env in self.envs:
            seeds = {result.seed: float(getattr(result, kind)) for result in self.of(group, env)}
            if len(seeds) > 1 and np.isfinite(list(seeds.values())).all():
                found[env] = seeds
        return found

    def unpaired(self, baseline: str) -> list[str]:
        """A remark on every environment where a group and the baseline have different seeds."""
        found = []
        for group, env in ((group, env) for group in self.groups if group != baseline for env in self.envs):
            ours, theirs = ({result.seed for result in self.of(name, env)} for name in (group, baseline))
            if ours and theirs and ours != theirs:
                found.append(f"{group} and {baseline} have different seeds on {env} and are not paired there.")
        return found


def caution(results: Iterable[Result]) -> str:
    """How reliable intervals of few seeds are; empty if no group has few seeds."""
    seeds = Counter((result.env, result.group) for result in results).values()
    if not any(1 < count < max(stats.COVERAGE) for count in seeds):
        return ""
    (fewest, share), *others = stats.COVERAGE.items()
    more = ", ".join(f"{share} % with {count}" for count, share in others)
    text = f"a 95 % interval contains the true mean in {share} % of cases with {fewest} seeds, {more}"
    return f"Intervals of few seeds are too narrow: {text}."


# --- run directories --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Listed:
    """A run as a list of trials names it, and where to find it."""

    place: Callable[[], Path]  # fails if a link leads there
    group: str
    env: str
    seed: int

    @property
    def label(self) -> str:
        return label_of(self.group, self.env, self.seed)


@dataclass(frozen=True)
class _Trial:
    """The parts of a run directory that are compared."""

    group: str
    env: str
    run: Run
    decisions: int
    planned: int
    failed: bool
    evaluations: Mapping[str, Array]

    @property
    def label(self) -> str:
        return label_of(self.group, self.env, self.run.seed)

    @property
    def unfinished(self) -> list[str]:
        return unfinished(self.label, self.decisions, self.planned)


def read_comparison(folder: Path) -> Comparison:
    """Compare the runs of a sweep's directory."""
    sweep = SweepFolder(folder)
    rows = sweep.rows()
    if not rows:
        problem = "contains no sweep (no trials.csv)" if folder.exists() else "does not exist"
        raise FileNotFoundError(f"{folder} {problem}: give the directory that bdqn sweep printed.")
    return compare([Listed(partial(sweep.place, row), row["group"], row["env"], int(row["seed"])) for row in rows])


def compare(listed: Iterable[Listed]) -> Comparison:
    """Compare runs, wherever they are."""
    trials, remarks = [], []
    for one in listed:
        try:
            trial = _read_trial(one.place(), one.group)
            _require_agreement(trial, one)
        except (OSError, ValueError, KeyError) as error:
            remarks.append(f"{one.label} is missing: {error}")
            continue
        if not len(trial.run.step):
            remarks.append(f"{one.label} is missing: no episode has ended.")
            continue
        if trial.failed:  # its scores before the failure are not what it would have reached
            remarks.append(f"{one.label} is missing: it failed after {trial.decisions:,} decisions; its log says why.")
            continue
        trials.append(trial)
    end = _ends(trials)
    for trial in trials:
        left_out = " It is left out." if trial.decisions < end[trial.env] else ""
        remarks += [f"{remark}{left_out}" for remark in trial.unfinished]
    compared = [trial for trial in trials if trial.decisions >= end[trial.env]]
    remarks += _other_settings(compared)
    return comparison_of([_result(trial, end[trial.env]) for trial in compared], remarks)


def read_result(folder: Path, group: str) -> Result:
    """Score one run directory over all of its decisions."""
    trial = _read_trial(folder, group)
    return _result(trial, trial.decisions)


def unfinished(label: str, decisions: int, planned: int) -> list[str]:
    """A remark on a run that has not finished."""
    return [f"{label} has taken {decisions:,} of {planned:,} decisions."] if decisions < planned else []


def _ends(trials: Sequence[_Trial]) -> dict[str, int]:
    """The decisions over which an environment's runs are compared: those of the shortest finished run.

    Runs that have only begun do not count. They would cut the scores of all others.
    """
    ends: dict[str, list[tuple[bool, int]]] = {}
    for trial in trials:
        ends.setdefault(trial.env, []).append((bool(trial.unfinished), trial.decisions))
    return {env: min(mine)[1] for env, mine in ends.items()}


def _require_agreement(trial: _Trial, listed: Listed) -> None:
    """Refuse a run whose environment or seed differs from its entry in the list."""
    if (trial.env, trial.run.seed) != (listed.env, listed.seed):
        raise DamagedFile(
            f"{trial.run.path / 'config.toml'} is for {trial.env}, seed {trial.run.seed}: this is not the trial that "
            "trials.csv names."
        )


def _read_trial(folder: Path, group: str) -> _Trial:
    run, status = read_run(folder), read_meta(folder).get("status")
    planned, decisions = int(run.config["steps"]), checkpoint_files.latest_step(checkpoint_files.folder_of(folder))
    if decisions is None:  # it writes no checkpoints, or none yet
        decisions = planned if status == "finished" else int(run.step[-1]) if len(run.step) else 0
    try:
        evaluations = read_finite(folder / "evaluations.csv", EVALUATION)
    except FileNotFoundError:
        evaluations = dict.fromkeys(EVALUATION, np.zeros(0))
    return _Trial(group, str(run.config["env"]), run, decisions, planned, status == "failed", evaluations)


def _result(trial: _Trial, end: int) -> Result:
    """A run's scores up to decision ``end``."""
    run = trial.run
    grid = np.linspace(0, end, POINTS)
    curve = learning_curve(run, grid, WINDOW)
    kept = np.linspace(0, end, KEPT + 1)[1:]
    step, greedy = (trial.evaluations[name] for name in EVALUATION)
    return Result(
        trial.env,
        trial.group,
        run.seed,
        trial.decisions,
        final=float(curve[-1]),
        area=stats.area_under_curve(grid, curve, end) if np.isfinite(curve[-1]) else np.nan,
        evaluation=float(np.append(np.nan, greedy[step <= end])[-1]),
        step=kept,
        curve=learning_curve(run, kept, WINDOW),
    )


def _other_settings(trials: Sequence[_Trial]) -> Iterator[str]:
    """A remark on every run whose settings differ from its group: the sweep file was changed."""
    first: dict[tuple[str, str], Mapping[str, Any]] = {}
    for trial in trials:
        ours = {name: value for name, value in _flat({**trial.run.config, "steps": None}).items() if not is_seed(name)}
        theirs = first.setdefault((trial.group, trial.env), ours)
        differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        if differing:
            yield f"{trial.label} has other settings than the first run of its group: {', '.join(differing)}."


def is_seed(name: str) -> bool:
    """Whether a setting is the seed of a run or of its environment, which does not define the agent."""
    return name == "seed" or name.endswith("_seed")


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for key, entry in config.items() for name, value in _entries(key, entry)}


def _entries(key: str, entry: Any) -> Iterable[tuple[str, Any]]:
    return entry.items() if isinstance(entry, dict) else [(key, entry)]


def comparison_of(results: Sequence[Result], remarks: Sequence[str]) -> Comparison:
    """Results with remarks on single seeds, unknown scores and different lengths."""
    more = []
    for group, env in dict.fromkeys((result.group, result.env) for result in results):
        mine = [result for result in results if (result.group, result.env) == (group, env)]
        if len(mine) == 1:
            more.append(f"{group} on {env} has a single seed: its curve is drawn without an interval.")
        for kind in SCORES:
            unknown = [result.label for result in mine if np.isnan(getattr(result, kind))]
            if unknown and (kind != "evaluation" or len(unknown) < len(mine)):  # evaluations are optional
                more.append(f"{'; '.join(unknown)}: {kind} is unknown, so {group} has none on {env}.")
    for env in dict.fromkeys(result.env for result in results):
        ends = {result.decisions for result in results if result.env == env}
        if len(ends) > 1:
            more.append(
                f"{env}: runs are compared over their first {min(ends):,} decisions, which all of them have taken."
            )
    return Comparison(tuple(results), (*remarks, *more))


# --- stored results -------------------------------------------------------------------------------------------


def write_results(folder: Path, comparison: Comparison) -> None:
    """Write the scores of all runs to runs.csv and their learning curves to curves.csv."""
    results = comparison.results
    rows = ([_cell(getattr(result, name)) for name in RUN_COLUMNS] for result in results)
    write_table(folder / "runs.csv", [RUN_COLUMNS, *rows])
    points = ((r, *point) for r in results for point in zip(r.step, r.curve, strict=True))
    lines = ((r.env, r.group, r.seed, f"{step:g}", f"{value:.4g}") for r, step, value in points)
    write_table(folder / "curves.csv", [CURVE_COLUMNS, *lines])


def read_results(folder: Path) -> Comparison:
    """Read what ``write_results`` wrote."""
    points: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    for key, cells in _read(folder / "curves.csv", CURVE_COLUMNS):
        points.setdefault(key, []).append((cells["step"], cells["return"]))
    results, lengths = [], {key[:2]: len(curve) for key, curve in points.items()}
    for key, cells in _read(folder / "runs.csv", RUN_COLUMNS):
        if key not in points:
            raise DamagedFile(f"{folder / 'curves.csv'} has no curve for {label_of(key[1], key[0], key[2])}.")
        env, group, seed = key
        if len(points[key]) != lengths[env, group]:
            raise DamagedFile(f"{folder / 'curves.csv'}: curves of {group} on {env} differ in their number of points.")
        scores = {kind: cells[kind] for kind in SCORES}
        step, curve = np.array(points[key]).T
        results.append(Result(env, group, seed, int(cells["decisions"]), **scores, step=step, curve=curve))
    return comparison_of(results, ())


def _read(path: Path, columns: Sequence[str]) -> Iterator[tuple[tuple[str, str, int], dict[str, float]]]:
    """The environment, group and seed of each row, and its numbers, decisions first."""
    rows = safe_files.rows(path)
    if next(rows, []) != list(columns):
        raise DamagedFile(f"{path} must have the columns {', '.join(columns)}: write it again with bdqn compare.")
    for line, row in enumerate(rows, 2):
        try:
            env, group, seed, *cells = row
            numbers = dict(zip(columns[3:], map(number, cells), strict=True))
            decisions, *others = numbers.values()
            sensible = 0 <= decisions < LARGEST and not any(abs(value) >= LARGEST for value in others)
            if not sensible or not (env + group).isprintable():
                raise ValueError("no run can produce this row.")
            key = from_text(env), from_text(group), int(seed)
        except ValueError as error:
            raise DamagedFile(f"{path}: line {line}: {error}") from error
        yield key, numbers


def _cell(value: object) -> object:
    if not isinstance(value, float):
        return value
    return "" if np.isnan(value) else f"{value:.6g}"
