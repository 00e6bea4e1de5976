"""Tables of a comparison: scores of each group, comparisons with a baseline, and aggregates over environments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path

import numpy as np

from bdqn.report import stats
from bdqn.report.cells import write_table
from bdqn.report.compare import SCORES, Comparison
from bdqn.report.grid import DASH, Cell, Column, Grid, grid
from bdqn.report.stats import SeedScores


@dataclass(frozen=True)
class Row:
    """One statistic of a group, on one environment or several, with its interval over seeds."""

    env: str
    group: str
    baseline: str  # empty if there is none
    score: str
    statistic: str
    seeds: int  # per environment, the fewest
    estimate: float
    low: float
    high: float


PER_ENVIRONMENT: Mapping[str, stats.Statistic] = {"mean": stats.mean, "IQM": stats.iqm}
PAIRED = ("ratio", "difference", "P(higher)")
OVER_ALL: Mapping[str, stats.Statistic] = {**PER_ENVIRONMENT, "median": stats.median, "gap": stats.optimality_gap}
SCORE_NOTE = (
    "Scores: final, mean return of the last episodes; area, mean over training; evaluation, the latest greedy one."
)
PAIR_NOTE = (
    f"{SCORE_NOTE} P(higher): probability that a run scores higher than a run of the baseline. "
    "A dash: a mean is not positive, or the environments have different scales."
)
GAP_NOTE = f"{SCORE_NOTE} Gap: how far runs fall short of the baseline's mean; runs above it count as zero."
SHARES = ("ratio", "P(higher)", "gap")  # without a unit
COLUMNS = {"IQM": "iqm", "P(higher)": "p_higher"}  # names in files, if they differ from the statistic's


@dataclass(frozen=True)
class RowTable:
    """The rows of one table."""

    name: str
    title: str
    rows: Sequence[Row]
    statistics: Sequence[str]  # possible columns
    note: str

    def grid(self, *remarks: str) -> Grid:
        """The table for a page or a paper."""
        places = list(dict.fromkeys((row.env, row.score) for row in self.rows))  # keep groups that compare together
        ordered = sorted(self.rows, key=lambda row: places.index((row.env, row.score)))
        heading, *rows = layout(ordered, self.statistics)
        note = " ".join(filter(None, (self.note, *remarks)))
        return replace(grid(self.name, self.title, heading, rows, note), stacks=True)


def all_tables(comparison: Comparison, baseline: str, rng: np.random.Generator, level: float = 0.95) -> list[RowTable]:
    """All tables of a comparison that have rows."""
    scores = RowTable(
        "scores", f"Scores{_intervals(level)}", score_rows(comparison, rng, level), [*PER_ENVIRONMENT], SCORE_NOTE
    )
    pairs = pair_table(comparison, baseline, rng, level)
    title = f"Over all environments, in units of {baseline}'s mean{_intervals(level)}"
    over_all = RowTable("over-all", title, aggregate_rows(comparison, baseline, rng, level), [*OVER_ALL], GAP_NOTE)
    return [table for table in (scores, pairs, over_all) if table.rows]


def pair_table(comparison: Comparison, baseline: str, rng: np.random.Generator, level: float = 0.95) -> RowTable:
    """Each group compared with the baseline; no rows if there is nothing to compare."""
    title = f"Against {baseline}, paired by seed{_intervals(level)}"
    return RowTable("differences", title, pair_rows(comparison, baseline, rng, level), PAIRED, PAIR_NOTE)


def _intervals(level: float) -> str:
    return f"; intervals of {100 * level:g} %"


def score_rows(comparison: Comparison, rng: np.random.Generator, level: float = 0.95) -> list[Row]:
    """Scores of each group by environment."""
    rows: list[Row] = []
    for env, kind, group in product(comparison.envs, SCORES, comparison.groups):
        scores = comparison.scores(group, kind)
        if env in scores:
            rows += _statistics(PER_ENVIRONMENT, {env: scores[env]}, (env, group, "", kind), rng, level)
    return rows


def pair_rows(comparison: Comparison, baseline: str, rng: np.random.Generator, level: float = 0.95) -> list[Row]:
    """Each group compared with the baseline, paired by seed: per environment, and over all that both have.

    There is no ratio if a mean is not positive. Differences are not averaged: environments differ in scale.
    """
    rows: list[Row] = []
    for kind in SCORES:
        theirs = comparison.scores(baseline, kind)
        for group in comparison.groups:
            ours = comparison.scores(group, kind)
            shared = [env for env in ours if env in theirs] if group != baseline else []
            for envs in [*([env] for env in shared), *([shared] if len(shared) > 1 else [])]:
                x, y = ({env: scores[env] for env in envs} for scores in (ours, theirs))
                place = (_place(envs, comparison), group, baseline, kind)
                for name, statistic in _pair_statistics(x, y, single=len(envs) == 1):
                    try:
                        estimate, (low, high), _ = stats.bootstrap_pair(statistic, x, y, rng, level=level)
                    except ValueError:  # a ratio, if the mean of a resample is not positive
                        continue
                    rows.append(Row(*place, name, _fewest(x, y), float(estimate), float(low), float(high)))
    return rows


def _pair_statistics(x: SeedScores, y: SeedScores, *, single: bool) -> Iterator[tuple[str, stats.PairStatistic]]:
    if all(mean > 0 for scores in (x, y) for mean in _means(scores).values()):
        yield "ratio", stats.ratio
    if single:
        yield "difference", stats.difference
    yield "P(higher)", stats.probability_of_improvement


def aggregate_rows(comparison: Comparison, baseline: str, rng: np.random.Generator, level: float = 0.95) -> list[Row]:
    """Each group over all environments. Scores are divided by the baseline's mean, so that they can be averaged.

    The gap is how far runs fall short of the baseline's mean. Runs above it count as zero.
    """
    rows: list[Row] = []
    for kind in SCORES:
        scores = relative_scores(comparison, baseline, kind)
        for group, mine in scores.items():
            if len(mine) > 1:
                rows += _statistics(OVER_ALL, mine, (_place(mine, comparison), group, baseline, kind), rng, level)
    return rows


def relative_scores(comparison: Comparison, baseline: str, kind: str) -> dict[str, SeedScores]:
    """Scores divided by the baseline's mean, by group.

    Only environments that all groups have and in which that mean is positive; empty if there is none.
    """
    scores = {group: comparison.scores(group, kind) for group in comparison.groups}
    means = {env: mean for env, mean in _means(comparison.scores(baseline, kind)).items() if mean > 0}
    shared = [env for env in means if all(env in mine for mine in scores.values())]
    if not shared:
        return {}
    return {
        group: {env: {seed: value / means[env] for seed, value in mine[env].items()} for env in shared}
        for group, mine in scores.items()
    }


def _statistics(
    statistics: Mapping[str, stats.Statistic],
    scores: SeedScores,
    place: tuple[str, str, str, str],
    rng: np.random.Generator,
    level: float,
) -> Iterator[Row]:
    arrays = stats.by_environment(scores)
    for name, statistic in statistics.items():
        low, high = stats.bootstrap(statistic, arrays, rng, level=level)
        yield Row(*place, name, _fewest(scores), float(statistic(arrays)), float(low), float(high))


def _means(scores: SeedScores) -> dict[str, float]:
    return {env: float(np.mean(list(seeds.values()))) for env, seeds in scores.items()}


def _fewest(*scores: SeedScores) -> int:
    return min(len(seeds) for one in scores for seeds in one.values())


def _place(envs: Iterable[str], comparison: Comparison) -> str:
    envs = list(envs)
    return "all" if len(envs) > 1 and set(envs) == set(comparison.envs) else " + ".join(envs)


# --- files and readers -------------------------------------------------------------------------------------------


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as CSV."""
    lines = ([f"{v:.6g}" if isinstance(v, float) else v for v in vars(row).values()] for row in rows)
    write_table(path, [[field.name for field in fields(Row)], *lines])


def layout(rows: Sequence[Row], statistics: Sequence[str] = ()) -> list[list[str]]:
    """Cells for readers, headings first: a row per group, environment and score, a column per statistic.

    Without ``statistics`` there is a column for each statistic in ``rows``.
    """
    statistics = statistics or list(dict.fromkeys(row.statistic for row in rows))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        key = (row.env, row.group, row.score, Cell(str(row.seeds), row.seeds))
        lines.setdefault(key, {})[row.statistic] = _cell(row)
    columns = [Column.estimate(name, COLUMNS.get(name, name)) for name in statistics]
    cells: list[list[str]] = [["environment", "group", "score", "seeds", *columns]]
    return [*cells, *([*key, *(found.get(name, DASH) for name in statistics)] for key, found in lines.items())]


def _cell(row: Row) -> Cell:
    """An estimate with its interval. Small numbers get more decimals."""
    values = (row.estimate, row.low, row.high)
    largest = max(map(abs, values))
    digits = 3 if row.statistic == "ratio" else 2
    if row.statistic not in SHARES and 0 < largest < 0.01:
        digits = 2 - math.floor(math.log10(largest))
    estimate, low, high = (f"{value:,.{digits}f}" for value in values)
    return Cell(f"{estimate} ({low} to {high})", *values)
