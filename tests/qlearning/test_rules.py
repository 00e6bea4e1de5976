"""Each rule on numbers computed by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bdqn.qlearning import action_probabilities, rules, safety


def test_greedy_takes_the_best_and_the_first_of_equals() -> None:
    assert_array_equal(rules.greedy(np.array([[0.0, 2.0, 1.0], [3.0, 3.0, 1.0]])), [1, 0])


def test_uniform_takes_every_action_equally_often() -> None:
    actions = rules.uniform(np.random.default_rng(0), 30_000, 3)
    assert_allclose(np.bincount(actions, minlength=3) / 30_000, 1 / 3, atol=0.01)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_epsilon_greedy_spreads_epsilon_over_all_actions(epsilon: float) -> None:
    q = np.tile([0.0, 5.0, 1.0, 2.0], (40_000, 1))
    actions = rules.epsilon_greedy(q, epsilon, np.random.default_rng(1))
    others = epsilon / 4  # an exploring action may be the best one too
    expected = [others, 1 - 3 * others, others, others]
    assert_allclose(np.bincount(actions, minlength=4) / len(q), expected, atol=0.01)


def test_epsilon_greedy_decides_for_each_environment_on_its_own() -> None:
    q = np.tile([1.0, 0.0], (2, 1))
    rng = np.random.default_rng(2)
    explored = np.array([rules.epsilon_greedy(q, 0.5, rng) for _ in range(20_000)]) == 1
    assert_allclose(explored.mean(0), 0.25, atol=0.02)
    assert_allclose(explored.all(1).mean(), 0.25**2, atol=0.01)


def test_boltzmann_draws_from_its_softmax() -> None:
    q = np.tile(np.log([1.0, 2.0, 5.0]), (40_000, 1))
    for temperature, odds in ((1.0, [1, 2, 5]), (0.5, [1, 4, 25])):
        actions = rules.boltzmann(q, temperature, np.random.default_rng(5))
        assert_allclose(np.bincount(actions) / len(q), np.array(odds) / sum(odds), atol=0.01)


def test_boltzmann_at_temperature_zero_is_greedy() -> None:
    q = np.random.default_rng(6).normal(size=(1_000, 4))
    q[::3, 2] = q[::3].max(1)  # ties
    assert_array_equal(rules.boltzmann(q, 0.0, np.random.default_rng(7)), rules.greedy(q))
    assert_array_equal(action_probabilities.boltzmann_probabilities(q, 0.0).argmax(1), rules.greedy(q))


def test_optimism_prefers_the_uncertain() -> None:
    mean, std = np.array([[1.0, 0.0, 0.9]]), np.array([[0.1, 0.4, 0.2]])
    assert rules.upper_confidence(mean, std, 0.0) == 0
    assert rules.upper_confidence(mean, std, 2.0) == 2  # 1.2, 0.8, 1.3
    assert rules.upper_confidence(mean, std, 5.0) == 1  # 1.5, 2.0, 1.9


@pytest.mark.parametrize(("step", "value"), [(0, 1.0), (25, 0.775), (50, 0.55), (99, 0.109), (100, 0.1), (150, 0.1)])
def test_a_linear_schedule_starts_ends_and_stays(step: int, value: float) -> None:
    assert rules.linear_schedule(step, 1.0, 0.1, 100) == pytest.approx(value)


def test_shares_of_draws_in_which_an_action_is_best() -> None:
    draws = np.array(
        [  # two observations, three actions
            [[1.0, 0.0, 0.0], [0.0, 0.0, 9.0]],
            [[0.0, 1.0, 0.0], [0.0, 0.0, 9.0]],
            [[2.0, 1.0, 0.0], [0.0, 1.0, 9.0]],
            [[3.0, 1.0, 2.0], [5.0, 1.0, 0.0]],
        ]
    )
    assert_array_equal(action_probabilities.optimal_action_probabilities(draws), [[0.75, 0.25, 0.0], [0.25, 0.0, 0.75]])


# --- how probably each action is taken -------------------------------------------------------------


def test_probabilities_of_epsilon_greedy() -> None:
    q = np.array([[0.0, 5.0, 1.0, 2.0], [3.0, 3.0, 0.0, 0.0]])
    expected = [[0.05, 0.85, 0.05, 0.05], [0.85, 0.05, 0.05, 0.05]]
    assert_allclose(action_probabilities.epsilon_greedy_probabilities(q, 0.2), expected)
    assert_array_equal(action_probabilities.epsilon_greedy_probabilities(q[0], 0.0), [0, 1, 0, 0])


def test_probabilities_of_boltzmann() -> None:
    q = np.log([[1.0, 2.0, 5.0], [3.0, 3.0, 2.0]])
    expected = [[1 / 8, 2 / 8, 5 / 8], [3 / 8, 3 / 8, 2 / 8]]
    assert_allclose(action_probabilities.boltzmann_probabilities(q, 1.0), expected)
    assert_allclose(action_probabilities.boltzmann_probabilities(q[0], 0.5), [1 / 30, 4 / 30, 25 / 30])
    assert_array_equal(action_probabilities.boltzmann_probabilities(q, 0.0), [[0, 0, 1], [1, 0, 0]])


def test_probabilities_of_boltzmann_neither_overflow_nor_vanish() -> None:
    q = np.array([1e5, 1e5 - 1.0, -1e5])
    assert_allclose(action_probabilities.boltzmann_probabilities(q, 1.0), np.array([np.e, 1, 0]) / (np.e + 1))
    assert_allclose(action_probabilities.boltzmann_probabilities(q, 1e-300), [1, 0, 0])


def test_probabilities_of_thompson_sampling() -> None:
    # A difference of 1 with a standard deviation of sqrt(0.6^2 + 0.8^2) = 1: Phi(1) is 0.8413.
    mean, std = np.array([[1.0, 0.0], [2.0, 2.0]]), np.array([[0.6, 0.8], [1.0, 5.0]])
    found = action_probabilities.thompson_probabilities(mean, std, np.random.default_rng(8))
    assert_allclose(found, [[0.8413, 0.1587], [0.5, 0.5]], atol=0.005)
    # Three equals: a third each.
    equal = action_probabilities.thompson_probabilities(np.zeros(3), np.ones(3), np.random.default_rng(9))
    assert_allclose(equal, 1 / 3, atol=0.005)


def test_thompson_sampling_without_uncertainty_is_greedy() -> None:
    mean = np.array([[0.0, 2.0, 2.0]])
    found = action_probabilities.thompson_probabilities(
        mean, np.zeros_like(mean), np.random.default_rng(10), samples=10
    )
    assert_array_equal(found, [[0, 1, 0]])


# --- safety -------------------------------------------------------------------------------------


def test_lower_confidence_bound() -> None:
    assert_allclose(safety.lower_confidence_bound(np.array([2.0]), np.array([0.5]), scale=3.0), 0.5)
    values = np.random.default_rng(3).normal(2.0, 0.5, 200_000)
    bound = safety.lower_confidence_bound(np.array([2.0]), np.array([0.5]))
    assert_allclose((values > bound).mean(), 0.95, atol=0.003)


def test_margin_above_a_threshold_ranks_by_the_probability_of_exceeding_it() -> None:
    mean, std = np.array([1.0, 1.0, 1.0]), np.array([2.0, 0.5, 4.0])
    assert_allclose(safety.margin_above(mean, std, threshold=1.0), 0.0)
    assert_allclose(safety.margin_above(mean, std, threshold=2.0), [-0.5, -2.0, -0.25])  # 31 %, 2 %, 40 %
    # Probabilities of both are 1 to the last digit.
    assert safety.margin_above(np.array([50.0, 60.0]), np.ones(2), threshold=10.0).argmax() == 1


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
def test_conditional_value_at_risk_is_the_mean_of_the_worst(alpha: float) -> None:
    values = np.sort(np.random.default_rng(4).normal(1.0, 3.0, 400_000))
    worst = values[: round(alpha * len(values))].mean()
    risk = safety.conditional_value_at_risk(np.array([1.0]), np.array([3.0]), alpha=alpha)
    assert_allclose(risk, worst, atol=0.03)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.1, np.nan])
def test_an_impossible_share_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        safety.conditional_value_at_risk(np.zeros(1), np.ones(1), alpha=alpha)


def test_what_is_certain_is_as_safe_as_its_value() -> None:
    mean, std = np.array([0.0, 1.0, 2.0]), np.zeros(3)
    assert_array_equal(safety.lower_confidence_bound(mean, std), mean)
    assert_array_equal(safety.conditional_value_at_risk(mean, std), mean)
    assert_array_equal(safety.margin_above(mean, std, threshold=1.0), [-np.inf, np.inf, np.inf])


def test_every_criterion_prefers_the_less_uncertain_of_equals() -> None:
    mean, std = np.array([5.0, 5.0]), np.array([1.0, 3.0])
    options = {"probability": {"threshold": 4.0}}
    for name, criterion in safety.SAFETY_CRITERIA.items():
        sure, unsure = criterion(mean, std, **options.get(name, {}))
        assert sure > unsure, name
