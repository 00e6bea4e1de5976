"""The returns that followed decisions, and which of them are known."""

from __future__ import annotations

import numpy as np

from bdqn.runs.outcomes import HIDDEN, returns_from


def test_early_decisions_of_a_long_episode_have_a_return_though_it_was_cut() -> None:
    """CartPole's limit: after 459 decisions at 0.99, less than 1 % of what a value counts is missing."""
    over = np.arange(500) == 499
    found = returns_from(np.ones(500), over, np.zeros(500, bool), 0.99)
    known = np.flatnonzero(np.isfinite(found))
    assert known.tolist() == list(range(42))
    np.testing.assert_allclose(found[[0, 41]], (1 - 0.99 ** np.array([500, 459])) / 0.01)
    assert HIDDEN == 0.01


def test_an_episode_that_ended_has_all_its_returns() -> None:
    over = np.array([0, 0, 1, 0, 1, 0], bool)
    terminal = np.array([0, 0, 1, 0, 0, 0], bool)
    found = returns_from(np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), over, terminal, 0.5)
    np.testing.assert_array_equal(found, [3.0, 4.0, 4.0, np.nan, np.nan, np.nan])


def test_a_lost_life_ends_a_return_and_not_the_episode() -> None:
    terminal = np.array([0, 1, 0, 0], bool)
    found = returns_from(np.array([1.0, 1.0, 1.0, 1.0]), np.zeros(4, bool), terminal, 0.5)
    np.testing.assert_array_equal(found, [1.5, 1.0, np.nan, np.nan])
