"""Statistics over seeds: by hand, against SciPy and rliable, and intervals that cover what they should."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats

from bdqn.report import stats
from bdqn.report.load import Array
from bdqn.report.stats import Scores, SeedScores, Statistic, Value

THREE: Scores = {
    "a": np.array([1.0, 2.0, 3.0, 6.0]),  # mean 3
    "b": np.array([4.0, 8.0]),  # mean 6
    "c": np.array([0.0, 0.5, 1.0]),  # mean 0.5
}


def profile(scores: Scores) -> Array:
    return stats.performance_profile(scores, np.array([-0.5, 0.0, 0.5]))


STATISTICS = [stats.mean, stats.median, stats.iqm, stats.optimality_gap, profile]


def random_scores(rng: np.random.Generator, seeds: tuple[int, ...] = (5, 3, 8)) -> dict[str, Array]:
    return {f"env{i}": rng.normal(size=n) for i, n in enumerate(seeds)}


def seeded(scores: Scores, first: int = 0) -> SeedScores:
    return {name: {first + i: float(score) for i, score in enumerate(array)} for name, array in scores.items()}


def width(interval: stats.Interval) -> Value:
    return interval.high - interval.low


# Numbers worked out by hand.


def test_the_mean_and_the_median_are_of_environments() -> None:
    assert stats.mean(THREE) == pytest.approx((3 + 6 + 0.5) / 3)  # all runs pooled: 25.5 / 9
    assert stats.median(THREE) == 3  # all runs pooled: 2


def test_the_interquartile_mean_is_of_runs() -> None:
    # 0 0.5 | 1 1 2 3 4 | 6 8: nine runs, a quarter rounded down is two
    assert stats.iqm(THREE) == pytest.approx(11 / 5)


def test_the_optimality_gap_does_not_reward_what_exceeds_the_target() -> None:
    assert stats.optimality_gap(THREE) == pytest.approx(1 - (1 + 1 + 0.5) / 3)
    assert stats.optimality_gap(THREE, target=4.0) == pytest.approx(4 - (2.5 + 4 + 0.5) / 3)


def test_a_performance_profile_counts_what_is_above_each_threshold() -> None:
    fractions = stats.performance_profile(THREE, np.array([0.0, 1.0, 3.0, 8.0]))
    np.testing.assert_allclose(fractions, [(1 + 1 + 2 / 3) / 3, (3 / 4 + 1 + 0) / 3, (1 / 4 + 1 + 0) / 3, 0])


def test_improvement_counts_pairs_of_runs_and_half_of_ties() -> None:
    x = {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([5.0])}
    y = {"b": np.array([7.0, 5.0, 3.0, 9.0]), "a": np.array([2.0, 0.0])}
    in_a = (0 + 1 + 0.5 + 1 + 1 + 1) / 6
    in_b = (0 + 0.5 + 1 + 0) / 4
    assert stats.probability_of_improvement(x, y) == pytest.approx((in_a + in_b) / 2)
    assert stats.probability_of_improvement(y, x) == pytest.approx(1 - (in_a + in_b) / 2)


def test_differences_are_averaged_and_ratios_multiplied() -> None:
    x = {"a": np.array([1.0, 3.0]), "b": np.array([4.0, 8.0])}  # means 2, 6
    y = {"b": np.array([3.0, 9.0, 6.0]), "a": np.array([0.25, 0.75])}  # means 0.5, 6
    assert stats.difference(x, y) == pytest.approx((1.5 + 0) / 2)
    assert stats.ratio(x, y) == pytest.approx(2)  # sqrt(4 * 1); the arithmetic mean is 2.5
    assert stats.ratio(y, x) == pytest.approx(0.5)


def test_an_area_is_the_mean_height_of_straight_lines() -> None:
    steps, values = np.array([0.0, 10.0, 20.0, 40.0]), np.array([0.0, 4.0, 4.0, 0.0])
    assert stats.area_under_curve(steps, values, 40) == pytest.approx((20 + 40 + 40) / 40)
    assert stats.area_under_curve(steps, values, 30) == pytest.approx((20 + 40 + 30) / 30)  # ends at height 2
    assert stats.area_under_curve(steps, values, 10) == pytest.approx(2)


def test_before_its_first_value_a_curve_has_that_value() -> None:
    steps = np.array([0.0, 10.0, 20.0])
    assert stats.area_under_curve(steps, np.array([np.nan, 2.0, 6.0]), 20) == pytest.approx((20 + 40) / 20)
    assert stats.area_under_curve(steps[1:], np.array([2.0, 6.0]), 20) == pytest.approx((20 + 40) / 20)
    assert stats.area_under_curve(steps, np.array([np.nan, 2.0, 6.0]), 10) == pytest.approx(2)


def test_two_seeds_have_a_bootstrap_known_exactly() -> None:
    # The mean of two draws from {0, 1} is 0, 1/2, 1 with probability 1/4, 1/2, 1/4.
    scores = {"a": np.array([0.0, 1.0])}
    rng = np.random.default_rng(0)
    assert stats.bootstrap(stats.mean, scores, rng) == (0, 1)
    assert stats.bootstrap(stats.mean, scores, rng, level=0.6) == (0, 1)  # 0.2 and 0.8
    assert stats.bootstrap(stats.mean, scores, rng, level=0.4) == (0.5, 0.5)  # 0.3 and 0.7


# Other programs.


@pytest.mark.parametrize("runs", range(1, 18))
def test_the_interquartile_mean_is_scipys_trimmed_mean(runs: int) -> None:
    array = np.random.default_rng(runs).normal(size=runs)
    expected = scipy.stats.trim_mean(array, 0.25)
    assert stats.iqm({"a": array}) == pytest.approx(expected)
    if runs > 1:
        assert stats.iqm({"a": array[: runs // 2], "b": array[runs // 2 :]}) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_improvement_is_mann_and_whitneys_u_over_the_number_of_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(4, size=7), rng.integers(1, 5, size=5)  # with ties
    u = scipy.stats.mannwhitneyu(x, y, method="asymptotic").statistic
    assert stats.probability_of_improvement({"a": x}, {"a": y}) == pytest.approx(u / 35)


# What rliable 1.2.0 (arch 7.2.0, percentile intervals of 20,000 resamples; 5,000 of pairs) made of these runs.
RLIABLE_X: Scores = {
    "a": np.array([0.2, 0.4, 0.1, 0.8, 0.5]),
    "b": np.array([1.5, 0.7, 1.1, 1.3, 0.2]),
    "c": np.array([0.9, 0.9, 0.3, 0.6, 1.4]),
}
RLIABLE_Y: Scores = {
    "a": np.array([0.3, 0.4, 0.0, 0.6]),
    "b": np.array([1.0, 0.6, 1.6, 0.9]),
    "c": np.array([0.9, 0.2, 0.1, 0.5]),
}
RLIABLE = [
    (stats.mean, 0.7266666666666667, (0.54, 0.90666667)),
    (stats.median, 0.82, (0.48, 1.06)),
    (stats.iqm, 0.688888888888889, (0.45555556, 0.94444444)),
    (stats.optimality_gap, 0.3600000000000001, (0.22666667, 0.5)),
]
COARSE = 0.021  # scores are multiples of 0.1 and seeds are few: a mean over five seeds moves in steps of 0.02


@pytest.mark.parametrize(("statistic", "estimate", "interval"), RLIABLE)
def test_rliable_agrees_on_one_agent(statistic: Statistic, estimate: float, interval: tuple[float, float]) -> None:
    assert statistic(RLIABLE_X) == pytest.approx(estimate)
    ours = stats.bootstrap(statistic, RLIABLE_X, np.random.default_rng(0), samples=20_000)
    assert ours == pytest.approx(interval, abs=COARSE)


def test_rliable_agrees_on_profiles_and_improvement() -> None:
    thresholds = np.array([0.0, 0.4, 0.9, 1.4])
    expected = [1.0, 0.6666666666666666, 0.26666666666666666, 0.06666666666666667]
    np.testing.assert_allclose(stats.performance_profile(RLIABLE_X, thresholds), expected)
    assert stats.optimality_gap(RLIABLE_X, target=0.5) == pytest.approx(0.08666666666666667)
    improvement = stats.bootstrap_pair(
        stats.probability_of_improvement, seeded(RLIABLE_X), seeded(RLIABLE_Y), np.random.default_rng(0)
    )
    assert improvement.estimate == pytest.approx(0.625)
    assert improvement.interval == pytest.approx((0.40833333, 0.83333333), abs=COARSE)


# Properties.


@pytest.mark.parametrize("statistic", STATISTICS)
def test_neither_the_order_of_seeds_nor_that_of_environments_matters(statistic: Statistic) -> None:
    rng = np.random.default_rng(1)
    scores = random_scores(rng)
    other = {name: rng.permutation(scores[name]) for name in reversed(scores)}
    np.testing.assert_allclose(statistic(scores), statistic(other), rtol=1e-12)


@pytest.mark.parametrize("statistic", [stats.mean, stats.median, stats.iqm])
def test_a_constant_added_to_all_scores_is_added_to_the_statistic(statistic: Statistic) -> None:
    scores = random_scores(np.random.default_rng(2))
    moved = {name: array + 7 for name, array in scores.items()}
    assert statistic(moved) == pytest.approx(statistic(scores) + 7)


def test_a_constant_added_to_both_agents_changes_no_comparison() -> None:
    rng = np.random.default_rng(3)
    x, y = random_scores(rng), random_scores(rng)
    moved_x, moved_y = ({name: array + 7 for name, array in scores.items()} for scores in (x, y))
    assert stats.probability_of_improvement(moved_x, moved_y) == stats.probability_of_improvement(x, y)
    assert stats.difference(moved_x, moved_y) == pytest.approx(stats.difference(x, y))
    assert stats.optimality_gap(moved_x, target=8.0) == pytest.approx(stats.optimality_gap(x, target=1.0))


def test_an_agent_neither_improves_on_itself_nor_differs_from_itself() -> None:
    assert stats.probability_of_improvement(THREE, THREE) == 0.5
    assert stats.difference(THREE, THREE) == 0
    assert stats.ratio(THREE, THREE) == 1


def test_a_profile_falls_from_one_to_zero() -> None:
    scores = random_scores(np.random.default_rng(4))
    fractions = stats.performance_profile(scores, np.linspace(-9, 9, 50))
    assert (fractions[0], fractions[-1]) == (1, 0)
    assert all(left >= right for left, right in pairwise(fractions))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_many_resamples_at_once_give_what_they_give_one_by_one(statistic: Statistic) -> None:
    rng = np.random.default_rng(5)
    many = {"a": rng.normal(size=(6, 4)), "b": rng.normal(size=(6, 3))}
    expected = [statistic({name: array[i] for name, array in many.items()}) for i in range(6)]
    np.testing.assert_allclose(statistic(many), expected, rtol=1e-12)


@pytest.mark.parametrize("statistic", [stats.probability_of_improvement, stats.difference, stats.ratio])
def test_many_pairs_at_once_give_what_they_give_one_by_one(statistic: stats.PairStatistic) -> None:
    rng = np.random.default_rng(6)
    x = {"a": rng.uniform(1, 2, (6, 4)), "b": rng.uniform(1, 2, (6, 3))}
    y = {"a": rng.uniform(1, 2, (6, 2)), "b": rng.uniform(1, 2, (6, 3))}
    expected = [statistic({n: s[i] for n, s in x.items()}, {n: s[i] for n, s in y.items()}) for i in range(6)]
    np.testing.assert_allclose(statistic(x, y), expected, rtol=1e-12)


# The bootstrap.


def test_an_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    centre = np.array([0.0, 1.0, 5.0])
    covered = 0
    for _ in range(200):
        scores = {str(i): rng.normal(c, 1 + c, size=10) for i, c in enumerate(centre)}
        low, high = stats.bootstrap(stats.mean, scores, rng, samples=500)
        covered += bool(low <= centre.mean() <= high)
    assert 0.88 <= covered / 200 <= 0.99


def test_resamples_draw_with_replacement_within_each_environment_and_independently() -> None:
    seen: list[Scores] = []

    def record(scores: Scores) -> Value:
        seen.append(scores)
        return stats.mean(scores)

    stats.bootstrap(record, {"a": np.arange(4.0), "b": np.arange(10.0, 14.0)}, np.random.default_rng(8), samples=500)
    (resamples,) = seen  # all in one call
    assert resamples["a"].shape == resamples["b"].shape == (500, 4)
    assert set(resamples["a"].ravel()) == {0, 1, 2, 3}
    assert set(resamples["b"].ravel()) == {10, 11, 12, 13}
    distinct = [len(set(row)) for row in resamples["a"]]
    assert min(distinct) < 3 < max(distinct)
    assert abs(np.corrcoef(resamples["a"].mean(1), resamples["b"].mean(1))[0, 1]) < 0.15


def test_differences_between_environments_do_not_widen_an_interval() -> None:
    constant = {"a": np.zeros(5), "b": np.full(5, 100.0)}
    assert stats.bootstrap(stats.mean, constant, np.random.default_rng(9)) == (50, 50)


def test_a_higher_level_is_wider_and_more_seeds_are_narrower() -> None:
    rng = np.random.default_rng(10)
    few, many = random_scores(rng, (8, 8)), random_scores(rng, (80, 80))
    half = stats.bootstrap(stats.iqm, few, rng, level=0.5)
    most = stats.bootstrap(stats.iqm, few, rng, level=0.99)
    assert most.low < half.low < stats.iqm(few) < half.high < most.high
    assert width(stats.bootstrap(stats.iqm, many, rng)) < width(stats.bootstrap(stats.iqm, few, rng)) / 2


def test_a_profile_has_an_interval_at_every_threshold() -> None:
    scores = random_scores(np.random.default_rng(11))
    low, high = stats.bootstrap(profile, scores, np.random.default_rng(12))
    assert np.shape(low) == np.shape(high) == (3,)
    assert (low <= profile(scores)).all()
    assert (profile(scores) <= high).all()


def test_the_same_generator_gives_the_same_interval() -> None:
    scores = random_scores(np.random.default_rng(13))
    first, again, other = (stats.bootstrap(stats.iqm, scores, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first == again != other
    turned = {name: scores[name] for name in reversed(scores)}
    assert stats.bootstrap(stats.iqm, turned, np.random.default_rng(0)) == first


# Two agents.


def test_what_a_seed_does_to_both_agents_cancels_only_if_they_are_paired() -> None:
    scores = random_scores(np.random.default_rng(14))
    better = {name: array + 1 for name, array in scores.items()}
    rng = np.random.default_rng(15)
    paired = stats.paired_difference(seeded(better), seeded(scores), rng)
    assert paired.estimate == pytest.approx(1)
    assert paired.interval == pytest.approx((1, 1))
    assert paired.paired == ("env0", "env1", "env2")
    unpaired = stats.paired_difference(seeded(better, first=100), seeded(scores), rng)
    assert unpaired.estimate == paired.estimate
    assert width(unpaired.interval) > 0.5
    assert unpaired.interval.low < 1 < unpaired.interval.high
    assert unpaired.paired == ()


def test_a_ratio_is_paired_too() -> None:
    scores = {"a": np.array([1.0, 2.0, 4.0]), "b": np.array([3.0, 9.0])}
    double = {name: 2 * array for name, array in scores.items()}
    rng = np.random.default_rng(16)
    paired = stats.paired_ratio(seeded(double), seeded(scores), rng)
    assert (paired.estimate, *paired.interval) == pytest.approx((2, 2, 2))
    assert width(stats.paired_ratio(seeded(double), seeded(scores, first=7), rng).interval) > 1


def test_pairs_are_found_by_seed_and_not_by_place() -> None:
    x = {"a": {0: 1.0, 1: 5.0, 2: 9.0}}
    y = {"a": {2: 8.0, 0: 0.0, 1: 4.0}}
    assert stats.paired_difference(x, y, np.random.default_rng(0)).interval == pytest.approx((1, 1))


def test_each_environment_is_paired_if_its_own_seeds_allow() -> None:
    x = {"same": {0: 1.0, 1: 2.0}, "other": {0: 1.0, 1: 2.0}, "more": {0: 1.0, 1: 2.0}}
    y = {"same": {1: 2.0, 0: 1.0}, "other": {0: 1.0, 2: 2.0}, "more": {0: 1.0, 1: 2.0, 2: 3.0}}
    assert stats.paired_difference(x, y, np.random.default_rng(0)).paired == ("same",)


def test_a_difference_has_the_sign_of_the_first_agent() -> None:
    rng = np.random.default_rng(17)
    low, high = {"a": {0: 1.0, 1: 2.0}}, {"a": {0: 11.0, 1: 13.0}}
    assert stats.paired_difference(high, low, rng) == (10.5, (10, 11), ("a",))
    assert stats.paired_difference(low, high, rng) == (-10.5, (-11, -10), ("a",))
    above = stats.bootstrap_pair(stats.probability_of_improvement, high, low, rng)
    assert above == (1, (1, 1), ("a",))


def test_an_interval_of_a_difference_covers_the_truth_paired_or_not() -> None:
    rng = np.random.default_rng(18)
    covered = np.zeros(2)
    for _ in range(150):
        shared = rng.normal(size=(2, 10))
        x, y = ({"a": a, "b": b} for a, b in (shared + rng.normal(1, 0.5, (2, 10)), shared))
        for i, first in enumerate((0, 100)):
            low, high = stats.paired_difference(seeded(x, first), seeded(y), rng, samples=300).interval
            covered[i] += bool(low <= 1 <= high)
    assert 0.85 <= covered[0] / 150 <= 0.99
    assert covered[1] / 150 >= covered[0] / 150  # taking related runs for unrelated is wasteful, not wrong


def test_scores_by_seed_become_scores_in_the_order_of_seeds() -> None:
    (array,) = stats.by_environment({"a": {3: 30.0, 1: 10.0, 2: 20.0}}).values()
    np.testing.assert_array_equal(array, [10, 20, 30])


# What is refused.


@pytest.mark.parametrize("statistic", STATISTICS)
def test_scores_that_say_nothing_are_refused(statistic: Statistic) -> None:
    with pytest.raises(ValueError, match="no scores: give at least one environment"):
        statistic({})
    with pytest.raises(ValueError, match="no scores in Pong: run a seed there, or leave it out"):
        statistic({"Breakout": np.ones(2), "Pong": np.array([])})
    for bad in (np.nan, -np.inf):
        with pytest.raises(ValueError, match="A score in Pong is NaN or infinite: rerun that seed"):
            statistic({"Breakout": np.ones(2), "Pong": np.array([1.0, bad])})


@pytest.mark.parametrize("statistic", [stats.probability_of_improvement, stats.difference, stats.ratio])
def test_agents_are_compared_in_the_same_environments(statistic: stats.PairStatistic) -> None:
    x = {"a": np.ones(2), "b": np.ones(2), "c": np.ones(2)}
    y = {"c": np.ones(2), "d": np.ones(2)}
    with pytest.raises(ValueError, match=r"the first has no scores in d; the second has no scores in a, b\."):
        statistic(x, y)
    with pytest.raises(ValueError, match=r"environments, but the second has no scores in d\."):
        stats.bootstrap_pair(statistic, seeded(y), seeded({"c": y["c"]}), np.random.default_rng(0))
    with pytest.raises(ValueError, match="A score in c is NaN"):
        statistic({"c": np.ones(2)}, {"c": np.array([np.nan])})


def test_a_ratio_needs_positive_means() -> None:
    x, y = {"a": np.array([1.0, 2.0]), "b": np.array([3.0, -1.0])}, {"a": np.ones(2), "b": np.array([-1.0, 1.0])}
    with pytest.raises(ValueError, match=r"positive means, .* not so in b\. Use the difference"):
        stats.ratio(x, y)
    positive = {"a": np.ones(2), "b": np.ones(2)}
    assert stats.ratio(x, positive) > 0
    with pytest.raises(ValueError, match=r"also of resampled seeds; not so in b\."):
        stats.paired_ratio(seeded(x), seeded(positive), np.random.default_rng(0))


def test_an_interval_needs_seeds_samples_a_level_and_a_statistic_of_many_resamples() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="at least two seeds in every environment; b has one"):
        stats.bootstrap(stats.mean, {"a": np.ones(2), "b": np.ones(1)}, rng)
    with pytest.raises(ValueError, match="b has one"):
        stats.paired_difference({"b": {0: 1.0, 1: 1.0}}, {"b": {0: 1.0}}, rng)
    with pytest.raises(ValueError, match="samples must be at least 1, and better thousands, not 0"):
        stats.bootstrap(stats.mean, THREE, rng, samples=0)
    for level in (0.0, 1.0, 95.0):
        with pytest.raises(ValueError, match="between 0 and 1, not"):
            stats.bootstrap(stats.mean, THREE, rng, level=level)
    with pytest.raises(ValueError, match="must reduce only the last axis"):
        stats.bootstrap(lambda scores: scores["a"].max(), THREE, rng)


@pytest.mark.parametrize(
    ("steps", "values", "end", "message"),
    [
        ([0, 10], [1.0, 2.0], 11, "stops at step 10, before 11: train longer or choose an earlier end"),
        ([0, 10], [np.nan, np.nan], 10, "no value up to step 10, because no episode had ended"),
        ([0, 10], [np.nan, 1.0], 5, "no value up to step 5"),
        ([], [], 5, "no value up to step 5"),
        ([0, 10, 20], [1.0, np.nan, 2.0], 20, "NaN or infinity after its first value"),
        ([0, 10, 20], [1.0, 2.0, np.inf], 20, "NaN or infinity after its first value"),
        ([0, 10, 10], [1.0, 2.0, 3.0], 10, "Steps must be at least 0 and increasing"),
        ([-5, 10], [1.0, 2.0], 10, "at least 0"),
        ([0, 10], [1.0, 2.0], 0, "`end` must be positive"),
        ([0, 10], [1.0, 2.0, 3.0], 10, "one value per step, not steps"),
    ],
)
def test_a_curve_whose_area_is_unknown_is_refused(
    steps: list[float], values: list[float], end: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        stats.area_under_curve(np.array(steps, float), np.array(values), end)


def test_statistics_are_imported_without_what_trains_or_draws() -> None:
    heavy = {"torch", "gymnasium", "matplotlib", "scipy"}
    program = f"import sys, bdqn.report.stats; sys.exit(bool({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
