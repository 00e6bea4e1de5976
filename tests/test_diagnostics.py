"""Rewards of any size: the default preset copes, and a posterior that does not fit them is reported."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize("agent", ["ddqn", "bdqn"])
@pytest.mark.parametrize("factor", [100.0, 2.0**-10])
def test_rewards_in_another_unit_leave_every_action_unchanged(agent: str, factor: float) -> None:
    """The default preset, on CartPole: the same actions, and Q in the new unit."""
    small = {"learning_starts": 200, "target_update_interval": 200}

    def run(unit: float) -> tuple[bdqn.Learner, list[int]]:
        def paid() -> gym.Env[Any, Any]:
            return gym.wrappers.TransformReward(gym.make("CartPole-v1"), lambda reward: unit * reward)

        learner, lengths = bdqn.make(agent, paid, seed=2, **small), []
        learner.learn(900, lambda _, step: lengths.extend(episode.length for episode in step.episodes))
        return learner, lengths

    (plain, plain_lengths), (scaled_, scaled_lengths) = run(1.0), run(factor)
    assert plain_lengths == scaled_lengths
    observation = plain.envs.obs
    np.testing.assert_allclose(scaled_.q_values(observation), factor * plain.q_values(observation), rtol=1e-4)
    if agent == "bdqn":
        spreads = [learner.q_posterior(observation).std for learner in (plain, scaled_)]
        np.testing.assert_allclose(spreads[1], factor * spreads[0], rtol=1e-3)


@pytest.mark.parametrize("factor", [0.01, 10_000.0])
def test_learned_noise_follows_the_rewards_without_scaling_them(factor: float) -> None:
    settings = {"noise": "inverse-gamma", "reward_scaling": False}
    learner = bdqn.make("bdqn", scaled(factor), seed=1, **settings, **TRAINING).learn(1200)
    assert learner.predict([[1.0, 0.0], [-1.0, 0.0]])[0].tolist() == [1, 0]
    q = learner.q_posterior([1.0, 0.0])
    np.testing.assert_allclose(q.mean / factor, [-1.0, 1.0], atol=0.3)
    assert (q.std < factor).all()


def test_the_unit_is_known_from_the_first_reward_on() -> None:
    """While every reward is zero there is no unit; the first ones to come set it, once."""
    learner = bdqn.make("ddqn", LatePayer, reward_scaling=True, learning_starts=20)
    learner.learn(30)
    assert learner.agent.reward_unit == 0.0
    learner.learn(40)
    assert learner.agent.reward_unit == pytest.approx(50.0)


class LatePayer(MatchingAction):
    """Nothing for 50 decisions, then 50 or -50 each."""

    paid = 0

    def earn(self, action: int) -> float:
        self.paid += 1
        return 50.0 * super().earn(action) if self.paid > 50 else 0.0


@pytest.mark.parametrize(("factor", "fault"), [(1e-5, "almost at random"), (1e5, "hardly explores")])
def test_a_fixed_noise_that_does_not_fit_the_rewards_is_reported_with_what_to_set(factor: float, fault: str) -> None:
    settings = {"noise": "fixed", "noise_var": 1.0, "reward_scaling": False}
    learner = bdqn.make("bdqn", scaled(factor), **settings, **TRAINING)
    with pytest.warns(SpreadWarning, match=fault) as caught:
        learner.learn(2500)
    assert len(caught) == 1
    assert "noise='inverse-gamma'" in str(caught[0].message)


def refits(watch: SpreadWatch, ratio: float, count: int) -> None:
    for _ in range(count):
        metrics = {"posterior/std_mean": ratio, "posterior/action_gap": 1.0, "posterior/noise_var": 4.0}
        watch.look(metrics, q_size=1.0, fixed_noise=True)


@pytest.mark.parametrize("ratio", [2 * HOT, COLD / 2])
def test_only_a_lasting_disproportion_is_reported_and_only_once(ratio: float) -> None:
    watch = SpreadWatch()
    refits(watch, ratio, PATIENCE - 1)
    refits(watch, 1.0, 1)
    refits(watch, ratio, PATIENCE - 1)
    with pytest.warns(SpreadWarning, match=re.escape(f"{4.0 / ratio**2:.2g}")):
        refits(watch, ratio, 1)
    refits(watch, ratio, PATIENCE)


def test_actions_that_are_truly_alike_are_no_reason_to_warn() -> None:
    watch = SpreadWatch()
    for _ in range(2 * PATIENCE):
        metrics = {"posterior/std_mean": 0.1, "posterior/action_gap": 1e-6, "posterior/noise_var": 1.0}
        watch.look(metrics, q_size=1.0, fixed_noise=True)
    assert not watch.warned
