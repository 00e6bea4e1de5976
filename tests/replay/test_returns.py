"""Discounted returns of what a replay buffer holds."""

from __future__ import annotations

import numpy as np
import pytest

from bdqn.replay.buffer import Replay
from bdqn.replay.returns import discounted_returns, return_range


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_they_are_what_a_loop_adds_up(gamma: float) -> None:
    rng = np.random.default_rng(0)
    reward, last = rng.normal(size=500), rng.random(500) < 0.05
    expected, ahead = np.zeros(500), 0.0
    for i in reversed(range(500)):
        ahead = reward[i] + (0.0 if last[i] else gamma * ahead)
        expected[i] = ahead
    np.testing.assert_allclose(discounted_returns(reward, last, gamma), expected, atol=1e-10)


def step(replay: Replay, reward: float, *, terminal: bool = False, ended: bool = False) -> None:
    obs = np.zeros((1, 1), np.float32)
    replay.add(np.zeros(1, np.int64), np.array([reward]), obs, np.array([terminal]), np.array([ended]), obs)


def test_rewards_come_in_order_and_know_where_value_ends() -> None:
    replay = Replay(100, (1,), np.float32)
    replay.start(np.zeros((1, 1), np.float32))
    step(replay, 1)
    step(replay, 2, ended=True)  # truncated
    step(replay, 3, terminal=True)  # a lost life: no value follows, though the episode goes on
    step(replay, 4, terminal=True, ended=True)
    step(replay, 5)
    [(reward, last, cut)] = replay.rewards_in_order()
    assert reward.tolist() == [1, 2, 3, 4, 5]
    assert last.tolist() == [False, True, True, True, True]  # the present is the last of what has been seen
    assert cut.tolist() == [False, True, False, False, False]


def test_a_return_that_was_cut_short_counts_as_if_it_went_on() -> None:
    """Rewards of 1 for five decisions: bootstrapping past the limit, a state is worth 1 / (1 - gamma)."""
    reward, last = np.ones(5), np.arange(5) == 4
    assert return_range(reward, last, last, 0.9) == pytest.approx((0, 10))
    assert return_range(reward, last, ~last & last, 0.9) == pytest.approx((0, 1 + 0.9 + 0.81 + 0.729 + 0.6561))
    assert return_range(-reward, last, last, 1.0) == pytest.approx((-5, 0))
    assert return_range(np.zeros(0), np.zeros(0, bool), np.zeros(0, bool), 0.9) == (0, 0)


def test_a_sum_that_pays_late_goes_on_from_where_it_pays() -> None:
    """Two decisions on the way, then 1 in each of three: the way there is gone once, within the first half."""
    reward, last = np.array([0.0, 0.0, 1.0, 1.0, 1.0]), np.arange(5) == 4
    assert return_range(reward, last, last, 0.9) == pytest.approx((0, 10))
    late = np.array([0.0, 0.0, 0.0, 0.0, 1.0])  # in the second half: one reward is no habit
    assert return_range(late, last, last, 0.9)[1] == pytest.approx(0.81 / (1 - 0.9**3))


def test_a_full_ring_begins_with_its_oldest_reward() -> None:
    replay = Replay(6, (1,), np.float32)
    replay.start(np.zeros((1, 1), np.float32))
    for reward in range(20):
        step(replay, reward)
    [(reward, _, _)] = replay.rewards_in_order()
    assert reward.tolist() == [15, 16, 17, 18, 19]
