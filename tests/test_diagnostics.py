"""Rewards of any size: the default preset copes, and a posterior that does not fit them is reported."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import bdqn
from bdqn.diagnostics import COLD, HOT, PATIENCE, SpreadWarning, SpreadWatch
from probes import MatchingAction

TRAINING: dict[str, Any] = {
    "learning_starts": 100,
    "learning_rate": 3e-3,
    "target_update_interval": 50,
    "posterior_update_interval": 50,
    "train_freq": 1,
    "gamma": 0.5,
    "features": 32,
}


def scaled(factor: float) -> gym.Env[Any, Any]:
    return gym.wrappers.TransformReward(MatchingAction(), lambda reward: factor * reward)


@pytest.mark.parametrize("factor", [0.01, 1.0, 100.0, 10_000.0])
def test_the_default_posterior_learns_the_same_actions_whatever_the_rewards_are_counted_in(factor: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = bdqn.make("bdqn", scaled(factor), seed=1, **TRAINING).learn(1200)
    assert learner.predict([[1.0, 0.0], [-1.0, 0.0]])[0].tolist() == [1, 0]
    q = learner.q_posterior([1.0, 0.0])
    np.testing.assert_allclose(q.mean / factor, [-1.0, 1.0], atol=0.3)
    assert (q.std < factor).all()  # the spread is in the rewards' units too


@pytest.mark.parametrize(("factor", "fault"), [(1e-5, "almost at random"), (1e5, "hardly explores")])
def test_a_fixed_noise_that_does_not_fit_the_rewards_is_reported_with_what_to_set(factor: float, fault: str) -> None:
    learner = bdqn.make("bdqn", scaled(factor), noise="fixed", noise_var=1.0, **TRAINING)
    with pytest.warns(SpreadWarning, match=fault) as caught:
        learner.learn(2500)
    assert len(caught) == 1
    assert "noise='inverse-gamma'" in str(caught[0].message)


def refits(watch: SpreadWatch, ratio: float, count: int) -> None:
    for _ in range(count):
        watch.look({"posterior/std_mean": ratio, "posterior/action_gap": 1.0, "posterior/noise_var": 4.0})


@pytest.mark.parametrize("ratio", [2 * HOT, COLD / 2])
def test_only_a_lasting_disproportion_is_reported_and_only_once(ratio: float) -> None:
    watch = SpreadWatch()
    refits(watch, ratio, PATIENCE - 1)
    refits(watch, 1.0, 1)
    refits(watch, ratio, PATIENCE - 1)
    with pytest.warns(SpreadWarning, match=f"{4.0 / ratio**2:.2g}"):
        refits(watch, ratio, 1)
    refits(watch, ratio, PATIENCE)
