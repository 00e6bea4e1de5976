"""LSTD-Q against the values of a policy, which are known where every state has a regressor of its own."""

from __future__ import annotations

import numpy as np
import pytest

from bdqn.bayes.lstd import lstd_q
from bdqn.bayes.numerics import PosteriorError
from bdqn.bayes.sampled_backups import Transitions

STATES, ACTIONS, GAMMA = 5, 3, 0.9


def rows_of(rng: np.random.Generator, count: int, features: np.ndarray) -> Transitions:
    """Random transitions between states, some of which end an episode, and some of which stand for several."""
    state, following = rng.integers(STATES, size=(2, count))
    return Transitions(
        features[state].astype(np.float64),
        rng.integers(1, 4, size=count),
        rng.integers(ACTIONS, size=count),
        rng.normal(size=count).astype(np.float32),
        (GAMMA * (rng.random(count) < 0.8)).astype(np.float32),
        features[following].astype(np.float32),
    )


def values_of_policy(rows: Transitions, weights: np.ndarray) -> np.ndarray:
    """Q of the greedy policy in the MDP of empirical frequencies: (I - gamma P) Q = r, pair by pair."""
    state, following = rows.x.argmax(1), rows.next_x.argmax(1)
    next_action = weights.T[following].argmax(1)
    matrix, reward = np.eye(STATES * ACTIONS), np.zeros(STATES * ACTIONS)
    for s in range(STATES):
        for a in range(ACTIONS):
            own = (state == s) & (rows.action == a)
            share = rows.count[own] / rows.count[own].sum()
            reward[a * STATES + s] = share @ rows.reward[own]
            for p, d, s2, a2 in zip(share, rows.discount[own], following[own], next_action[own], strict=True):
                matrix[a * STATES + s, a2 * STATES + s2] -= p * d
    return np.linalg.solve(matrix, reward).reshape(ACTIONS, STATES)


def test_with_a_regressor_for_each_state_it_is_the_policys_value() -> None:
    rng = np.random.default_rng(0)
    rows, weights = rows_of(rng, 400, np.eye(STATES)), rng.normal(size=(ACTIONS, STATES))
    np.testing.assert_allclose(lstd_q(rows, weights, 1e-9), values_of_policy(rows, weights), rtol=1e-5, atol=1e-6)


def test_with_a_ridge_it_is_the_closed_form_row_by_row() -> None:
    rng = np.random.default_rng(1)
    rows, weights = rows_of(rng, 60, rng.normal(size=(STATES, 4))), rng.normal(size=(ACTIONS, 4))
    next_action = (rows.next_x @ weights.T).argmax(1)
    matrix, right = 0.7 * np.eye(ACTIONS * 4), 0.7 * weights.ravel()
    for i in range(60):
        x, next_x = np.zeros((2, ACTIONS, 4))
        x[rows.action[i]], next_x[next_action[i]] = rows.x[i], rows.next_x[i]
        matrix += rows.count[i] * np.outer(x, x.ravel() - rows.discount[i] * next_x.ravel())
        right += rows.count[i] * rows.reward[i] * x.ravel()
    expected = np.linalg.solve(matrix, right).reshape(ACTIONS, 4)
    np.testing.assert_allclose(lstd_q(rows, weights, 0.7), expected, rtol=1e-6)


def test_an_action_without_transitions_keeps_its_weights_and_forbidden_ones_are_not_taken_next() -> None:
    rng = np.random.default_rng(2)
    rows, weights = rows_of(rng, 200, np.eye(STATES)), rng.normal(size=(ACTIONS, STATES))
    vars(rows)["action"] %= 2
    weights[2] = 100.0  # the greedy policy's choice, if it may
    np.testing.assert_allclose(lstd_q(rows, weights, 1e-6)[2], 100.0)
    assert lstd_q(rows, weights, 1e-6)[:2].max() > 50
    vars(rows)["next_allowed"] = np.array([[True, True, False]]).repeat(200, 0)
    assert np.abs(lstd_q(rows, weights, 1e-6)[:2]).max() < 20


def test_a_system_without_a_solution_is_named() -> None:
    rows = rows_of(np.random.default_rng(3), 5, np.zeros((STATES, 4)))
    with pytest.raises(PosteriorError, match="raise ridge"):
        lstd_q(rows, np.zeros((ACTIONS, 4)), 0.0)
