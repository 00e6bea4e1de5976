"""A sweep's trials as a comparison: scores of every run, tables with intervals, learning curves with bands."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from bdqn import generation
from bdqn.report import stats
from bdqn.report.figures import COLORS, draw_band, learning_curve
from bdqn.report.load import Array, Run, read_run, read_table
from bdqn.sweep.folder import SweepFolder

WINDOW = 100  # episodes in a mean return, as in the paper
POINTS = 200  # of a learning curve
SCORES = ("final", "area", "evaluation")  # what a run is judged by; each is also a column


@dataclass(frozen=True)
class Trial:
    """One run of a comparison."""

    group: str
    env: str
    seed: int
    run: Run
    decisions: int  # that it has taken
    planned: int

    def final(self, end: float) -> float:
        """Mean return of the last episodes before ``end``: how it behaved, exploration and all."""
        return float(learning_curve(self.run, np.array([end]), WINDOW)[0])

    def area(self, end: float) -> float:
        """Mean height of its learning curve."""
        grid = np.linspace(0, end, POINTS)
        return stats.area_under_curve(grid, learning_curve(self.run, grid, WINDOW), end)

    def evaluation(self, end: float) -> float:
        """Its latest greedy evaluation before ``end``; NaN if there was none."""
        path = self.run.path / "evaluations.csv"
        if not path.exists():
            return np.nan
        table = read_table(path)
        before = table["step"] <= end
        return float(table["mean_reward"][before][-1]) if before.any() else np.nan


@dataclass(frozen=True)
class Comparison:
    """All trials that can be compared, and a sentence about each that cannot."""

    trials: tuple[Trial, ...]
    remarks: tuple[str, ...]

    @property
    def envs(self) -> list[str]:
        return list(dict.fromkeys(trial.env for trial in self.trials))

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(trial.group for trial in self.trials))

    def of(self, group: str, env: str) -> list[Trial]:
        return [trial for trial in self.trials if (trial.group, trial.env) == (group, env)]

    def end(self, env: str) -> int:
        """The decision up to which every trial of an environment has come: runs are compared over the same span."""
        return min(trial.decisions for trial in self.trials if trial.env == env)

    def scores(self, group: str, kind: str) -> dict[str, dict[int, float]]:
        """Scores of a group by environment and seed.

        Left out are environments where one is not known, and those with a single seed: that says nothing of the others.
        """
        found = {}
        for env in self.envs:
            end = self.end(env)
            seeds = {trial.seed: getattr(trial, kind)(end) for trial in self.of(group, env)}
            if len(seeds) > 1 and np.isfinite(list(seeds.values())).all():
                found[env] = seeds
        return found


def read_comparison(folder: Path) -> Comparison:
    """What a sweep's directory holds."""
    rows = SweepFolder(folder).rows()
    if not rows:
        problem = "holds no sweep (no trials.csv)" if folder.exists() else "does not exist"
        raise FileNotFoundError(f"{folder} {problem}: give the directory that bdqn sweep printed.")
    trials, remarks = [], []
    for row in rows:
        label = f"{row['group']} on {row['env']}, seed {row['seed']}"
        try:
            trial = _read_trial(folder / "trials" / row["trial"], row["group"])
        except (OSError, ValueError, KeyError) as error:
            remarks.append(f"{label} is missing: {error}")
            continue
        if not len(trial.run.step):
            remarks.append(f"{label} is missing: no episode has ended.")
            continue
        if trial.decisions < trial.planned:
            remarks.append(f"{label} has taken {trial.decisions:,} of {trial.planned:,} decisions.")
        trials.append(trial)
    for group, env in dict.fromkeys((trial.group, trial.env) for trial in trials):
        if sum((trial.group, trial.env) == (group, env) for trial in trials) == 1:
            remarks.append(f"{group} on {env} has a single seed: its curve is drawn, but it has no interval.")
    for env in dict.fromkeys(trial.env for trial in trials):
        ends = {trial.decisions for trial in trials if trial.env == env}
        if len(ends) > 1:
            remarks.append(f"{env}: runs are compared over their first {min(ends):,} decisions, all that each has.")
    return Comparison(tuple(trials), tuple(remarks))


def _read_trial(folder: Path, group: str) -> Trial:
    run = read_run(folder)
    decisions = generation.latest_step(folder / "checkpoints")
    if decisions is None:  # it is on its way to the first
        decisions = int(run.step[-1]) if len(run.step) else 0
    return Trial(group, str(run.config["env"]), run.seed, run, decisions, int(run.config["steps"]))


# --- tables ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A group's score on one environment, or over all of them."""

    env: str
    group: str
    score: str
    seeds: int
    estimate: float
    low: float
    high: float


def score_rows(comparison: Comparison, rng: np.random.Generator, level: float = 0.95) -> list[Row]:
    """Mean over seeds of each score, with a bootstrap interval."""
    rows = []
    for kind in SCORES:
        for group in comparison.groups:
            for env, seeds in comparison.scores(group, kind).items():
                one = stats.by_environment({env: seeds})
                low, high = stats.bootstrap(stats.mean, one, rng, level=level)
                rows.append(Row(env, group, kind, len(seeds), float(stats.mean(one)), float(low), float(high)))
    return rows


def ratio_rows(comparison: Comparison, baseline: str, rng: np.random.Generator, level: float = 0.95) -> list[Row]:
    """Each group's score over the baseline's, paired by seed: per environment, and over all they share.

    Where a mean is not positive there is no ratio, and no row.
    """
    rows = []
    for kind in SCORES:
        theirs = comparison.scores(baseline, kind)
        for group in comparison.groups:
            ours = comparison.scores(group, kind)
            shared = [env for env in ours if env in theirs] if group != baseline else []
            for name, envs in [*((env, [env]) for env in shared), *([("all", shared)] if len(shared) > 1 else [])]:
                x, y = ({env: scores[env] for env in envs} for scores in (ours, theirs))
                if all(np.mean(list(s[env].values())) > 0 for s in (x, y) for env in envs):
                    try:
                        estimate, (low, high), _ = stats.paired_ratio(x, y, rng, level=level)
                    except ValueError:  # a resample whose mean is not positive
                        continue
                    seeds = min(len(s[env]) for s in (x, y) for env in envs)
                    rows.append(Row(name, group, kind, seeds, float(estimate), float(low), float(high)))
    return rows


def improvement_rows(comparison: Comparison, baseline: str, rng: np.random.Generator, level: float = 0.95) -> list[Row]:
    """How probably a run of each group scores higher than one of the baseline's, over the environments they share."""
    rows = []
    for kind in SCORES:
        theirs = comparison.scores(baseline, kind)
        for group in comparison.groups:
            ours = comparison.scores(group, kind)
            shared = [env for env in ours if env in theirs]
            if group == baseline or not shared:
                continue
            x, y = ({env: scores[env] for env in shared} for scores in (ours, theirs))
            estimate, (low, high), _ = stats.bootstrap_pair(stats.probability_of_improvement, x, y, rng, level=level)
            seeds = min(len(s[env]) for s in (x, y) for env in shared)
            rows.append(
                Row("all" if len(shared) > 1 else shared[0], group, kind, seeds, *map(float, (estimate, low, high)))
            )
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """A table of scores as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row.__dataclass_fields__)
        for row in rows:
            writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in vars(row).values()])


# --- runs and curves, in files small enough to be kept with an experiment ----------------------------------------


@dataclass(frozen=True)
class Curve:
    """One run's learning curve."""

    env: str
    group: str
    seed: int
    step: Array
    value: Array  # mean return of the last episodes; NaN before the first has ended


def curves_of(comparison: Comparison, points: int = 100) -> list[Curve]:
    """Every run's learning curve, over what all runs of its environment have."""
    found = []
    for trial in comparison.trials:
        grid = np.linspace(0, comparison.end(trial.env), points + 1)[1:]
        found.append(Curve(trial.env, trial.group, trial.seed, grid, learning_curve(trial.run, grid, WINDOW)))
    return found


def write_curves(path: Path, curves: Iterable[Curve]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("env", "group", "seed", "step", "return"))
        for curve in curves:
            for step, value in zip(curve.step, curve.value, strict=True):
                writer.writerow((curve.env, curve.group, curve.seed, f"{step:g}", f"{value:.4g}"))


def read_curves(path: Path) -> list[Curve]:
    """What ``write_curves`` has written."""
    points: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            key = row["env"], row["group"], int(row["seed"])
            points.setdefault(key, []).append((float(row["step"]), float(row["return"])))
    return [Curve(*key, *np.array(values).T) for key, values in points.items()]


def write_runs(path: Path, comparison: Comparison) -> None:
    """Every run's scores, one row each."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("env", "group", "seed", "decisions", *SCORES))
        for trial in comparison.trials:
            end = comparison.end(trial.env)
            scores = (getattr(trial, kind)(end) for kind in SCORES)
            cells = ("" if np.isnan(score) else f"{score:.6g}" for score in scores)
            writer.writerow((trial.env, trial.group, trial.seed, trial.decisions, *cells))


# --- figures --------------------------------------------------------------------------------------------------


def curves_figure(curves: Sequence[Curve], rng: np.random.Generator) -> Figure:
    """Mean learning curve of each group, with a band of 95 % over seeds; a panel per environment."""
    envs, groups = (list(dict.fromkeys(getattr(curve, name) for curve in curves)) for name in ("env", "group"))
    figure = Figure(figsize=(5 * len(envs), 3.6), layout="constrained")
    for axes, env in zip(np.atleast_1d(figure.subplots(1, len(envs))), envs, strict=True):
        for i, group in enumerate(groups):
            mine = [curve for curve in curves if (curve.env, curve.group) == (env, group)]
            if mine:
                label = f"{group} ({len(mine)} seeds)"
                draw_band(axes, mine[0].step, np.array([c.value for c in mine]), COLORS[i % len(COLORS)], label, rng)
        axes.set_title(env)
        axes.set_xlabel("decisions")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_ylabel(f"return, mean of {WINDOW} episodes")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return figure
