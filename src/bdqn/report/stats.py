"""Comparing agents over seeds and environments, after Agarwal et al. (2021), arXiv:2108.13264.

Scores are stored by environment, because environments may have different numbers of seeds. Every statistic reduces
the last axis and keeps the others: one score per seed gives a number, and the bootstrap passes all resamples at once.

Every environment has the same weight, whatever its number of seeds. The exception is ``iqm``, which pools all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bdqn.report.load import Array

Value = np.float64 | Array  # a number; an array for resamples or thresholds
Scores = Mapping[str, Array]  # environment -> (..., seeds)
SeedScores = Mapping[str, Mapping[int, float]]  # environment -> seed -> score: two agents may share seeds

Statistic = Callable[[Scores], Value]
PairStatistic = Callable[[Scores, Scores], Value]

# Number of seeds -> how often (in %) a 95 % bootstrap interval contains the true mean of Gaussian scores.
COVERAGE = {2: 50, 3: 74, 5: 84, 10: 90}


class Interval(NamedTuple):
    """The central part of a bootstrap distribution."""

    low: Value
    high: Value


class PairEstimate(NamedTuple):
    """A statistic of two agents with its interval, and the environments in which they were paired by seed."""

    estimate: Value
    interval: Interval
    paired: tuple[str, ...]


def mean(scores: Scores) -> Value:
    """Mean over environments of the mean over seeds."""
    value: Value = _means(scores).mean(0)
    return value


def median(scores: Scores) -> Value:
    """Median over environments of the mean over seeds."""
    value: Value = np.median(_means(scores), axis=0)
    return value


def iqm(scores: Scores) -> Value:
    """Interquartile mean: the mean of all runs except the lowest and the highest quarter (rounded down).

    Runs are pooled, so an environment with more seeds has more weight.
    """
    runs = np.sort(np.concatenate(list(_checked(scores).values()), axis=-1))
    cut = runs.shape[-1] // 4
    value: Value = runs[..., cut : runs.shape[-1] - cut].mean(-1)
    return value


def optimality_gap(scores: Scores, target: float = 1.0) -> Value:
    """How far scores fall short of the target on average. Scores above it count as zero."""
    return target - mean({name: np.minimum(array, target) for name, array in scores.items()})


def performance_profile(scores: Scores, thresholds: Array) -> Array:
    """Fraction of runs above each threshold (the paper's run-score distribution), averaged over environments."""
    above = [array[..., None, :] > np.asarray(thresholds)[:, None] for array in _checked(scores).values()]
    return np.asarray(np.mean([fraction.mean(-1) for fraction in above], axis=0))  # (..., thresholds)


def probability_of_improvement(x: Scores, y: Scores) -> Value:
    """Probability that a run of x beats a run of y in the same environment, averaged over environments.

    A tie counts half: this is Mann and Whitney's U divided by the number of pairs. 0.5 means that neither is better.
    """
    _check_same_environments(x, y)
    pairs = zip(_checked(x).values(), _checked(y).values(), strict=True)
    value: Value = np.mean([_probability_above(ours, theirs) for ours, theirs in pairs], axis=0)
    return value


def difference(x: Scores, y: Scores) -> Value:
    """Mean of x minus mean of y, averaged over environments."""
    _check_same_environments(x, y)
    return mean(x) - mean(y)


def ratio(x: Scores, y: Scores) -> Value:
    """Mean of x divided by mean of y; the geometric mean over environments, so x / y and y / x are reciprocal."""
    _check_same_environments(x, y)
    value: Value = np.exp((_log_means(x) - _log_means(y)).mean(0))
    return value


def bootstrap(
    statistic: Statistic, scores: Scores, rng: np.random.Generator, *, samples: int = 2000, level: float = 0.95
) -> Interval:
    """Percentile interval of a statistic, by resampling the seeds within each environment (stratified).

    It measures the effect of seeds, not of the choice of environments. With n seeds per environment it is too narrow,
    by a factor of about sqrt((n - 1) / n) for a mean, and it ignores the heavier tails of Student's t. On one
    environment, 95 % intervals cover the truth in about 50 % of cases with two seeds, 84 % with five, 90 % with ten.
    """
    arrays = _checked(scores)
    resamples = {name: array[_resample(name, len(array), rng, samples)] for name, array in arrays.items()}
    return _interval(statistic(resamples), samples, level)


def bootstrap_pair(
    statistic: PairStatistic,
    x: SeedScores,
    y: SeedScores,
    rng: np.random.Generator,
    *,
    samples: int = 2000,
    level: float = 0.95,
) -> PairEstimate:
    """A statistic of two agents in the same environments, with its percentile interval, stratified as in ``bootstrap``.

    If both agents have the same seeds, a resample takes the same seeds of both, so that common effects cancel.
    Otherwise each agent is resampled by itself.
    """
    _check_same_environments(x, y)
    ours, theirs = _checked(by_environment(x)), _checked(by_environment(y))
    paired = tuple(name for name in ours if x[name].keys() == y[name].keys())
    resampled_ours: dict[str, Array] = {}
    resampled_theirs: dict[str, Array] = {}
    for name in ours:
        rows = _resample(name, len(ours[name]), rng, samples)
        resampled_ours[name] = ours[name][rows]
        if name not in paired:
            rows = _resample(name, len(theirs[name]), rng, samples)
        resampled_theirs[name] = theirs[name][rows]
    interval = _interval(statistic(resampled_ours, resampled_theirs), samples, level)
    return PairEstimate(statistic(ours, theirs), interval, paired)


def paired_difference(
    x: SeedScores, y: SeedScores, rng: np.random.Generator, *, samples: int = 2000, level: float = 0.95
) -> PairEstimate:
    """``difference`` with its interval, paired by seed where possible."""
    return bootstrap_pair(difference, x, y, rng, samples=samples, level=level)


def paired_ratio(
    x: SeedScores, y: SeedScores, rng: np.random.Generator, *, samples: int = 2000, level: float = 0.95
) -> PairEstimate:
    """``ratio`` with its interval, paired by seed where possible."""
    return bootstrap_pair(ratio, x, y, rng, samples=samples, level=level)


def by_environment(scores: SeedScores) -> Scores:
    """Scores as arrays, in the order of seeds."""
    return {name: np.array([seeds[seed] for seed in sorted(seeds)], float) for name, seeds in scores.items()}


def area_under_curve(steps: Array, values: Array, end: float) -> float:
    """Mean height of a learning curve over decisions 0 to ``end``, by the trapezoid rule.

    A curve is NaN before the first episode ends. There it gets its first known value, so that all runs are measured
    over the same decisions. A curve that stops before ``end`` is refused, because the rest is unknown.
    """
    if steps.ndim != 1 or steps.shape != values.shape:
        raise ValueError(f"A curve needs one value per step, not steps {steps.shape} and values {values.shape}.")
    if end <= 0 or (steps < 0).any() or (np.diff(steps) <= 0).any():
        raise ValueError(
            "Steps must be at least 0 and increasing, and `end` must be positive: sort the curve and drop repeats."
        )
    known = np.flatnonzero(~np.isnan(values))
    if not known.size or steps[known[0]] > end:
        raise ValueError(
            f"The curve has no value up to step {end:g}, because no episode had ended. Choose a later end."
        )
    steps, values = steps[known[0] :], values[known[0] :]
    if not np.isfinite(values).all():
        raise ValueError("The curve has NaN or infinity after its first value: leave these points out.")
    if steps[-1] < end:
        raise ValueError(
            f"The curve stops at step {steps[-1]:g}, before {end:g}: train longer or choose an earlier end."
        )
    grid = np.concatenate([[0.0], steps[steps < end], [end]])
    return float(np.trapezoid(np.interp(grid, steps, values), grid) / end)


def _checked(scores: Scores) -> dict[str, Array]:
    """Check scores and sort them by name, so that results do not depend on the order of reading."""
    if not scores:
        raise ValueError("There are no scores: give at least one environment.")
    arrays = {name: np.asarray(scores[name], float) for name in sorted(scores)}
    for name, array in arrays.items():
        if not array.size:
            raise ValueError(f"There are no scores in {name}: run a seed there, or leave it out.")
        if not np.isfinite(array).all():
            raise ValueError(f"A score in {name} is NaN or infinite: rerun that seed, or leave it out for all agents.")
    return arrays


def _check_same_environments(x: Mapping[str, object], y: Mapping[str, object]) -> None:
    lacks = {"first": sorted(y.keys() - x.keys()), "second": sorted(x.keys() - y.keys())}
    missing = [f"the {agent} has no scores in {', '.join(names)}" for agent, names in lacks.items() if names]
    if missing:
        raise ValueError(
            f"Agents must be compared in the same environments, but {'; '.join(missing)}. Run or drop these."
        )


def _means(scores: Scores) -> Array:
    return np.array([array.mean(-1) for array in _checked(scores).values()])  # (environments, ...)


def _log_means(scores: Scores) -> Array:
    means = _means(scores)
    wrong = [name for name, row in zip(sorted(scores), means, strict=True) if row.min() <= 0]
    if wrong:
        raise ValueError(
            f"A ratio needs positive means, also of resampled seeds; not so in {', '.join(wrong)}. Use the difference."
        )
    return np.log(means)


def _probability_above(x: Array, y: Array) -> Value:
    ours, theirs = x[..., :, None], y[..., None, :]
    value: Value = ((ours > theirs).mean((-2, -1)) + (ours >= theirs).mean((-2, -1))) / 2
    return value


def _resample(name: str, seeds: int, rng: np.random.Generator, samples: int) -> NDArray[np.int64]:
    if samples < 1:
        raise ValueError(f"samples must be at least 1, and better thousands, not {samples}.")
    if seeds < 2:
        raise ValueError(f"An interval needs at least two seeds in every environment; {name} has one.")
    return rng.integers(seeds, size=(samples, seeds))


def _interval(values: Value, samples: int, level: float) -> Interval:
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, not {level:g}.")
    if np.shape(values)[:1] != (samples,):
        raise ValueError("The statistic must reduce only the last axis of arrays of shape (samples, seeds).")
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Interval(low, high)
