"""Agents with bonuses by pseudo-counts: what they add to Double DQN, and what they leave alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.envs.interaction import Step
from bdqn.learner import Learner
from support.fingerprints import fingerprint
from support.probes import ConstantReward, DelayedReward
from support.small import SMALL, small

COUNTING = pytest.mark.parametrize("agent", ["dqn-counts", "dqn-cts"])
NOTHING = {"bonus_scale": 0.0, "return_share": 0.0}


@COUNTING
@pytest.mark.parametrize("env", ["CartPole-v1", "MinAtar/Breakout-v1"])
def test_without_bonus_and_returns_it_trains_as_double_dqn(agent: str, env: str) -> None:
    epsilon = {"exploration_final_eps": 0.05, "exploration_decay_steps": 200}
    own = {**SMALL, **epsilon, "loss": "squared", "reward_scaling": True, "num_envs": 2, "seed": 3}
    ddqn = bdqn.make("ddqn", env, **own).learn(300)
    expected = ddqn.agent.online.state_dict()
    for settings, equal in ((NOTHING, True), ({**NOTHING, "bonus_scale": 0.05}, False)):
        other = bdqn.make(agent, env, **own, **settings).learn(300).agent.online.state_dict()
        difference = max(float((other[name] - weights).abs().max()) for name, weights in expected.items())
        assert (difference == 0.0) == equal
    returns = bdqn.make(agent, env, **own, **{**NOTHING, "return_share": 0.5}).learn(300)
    assert not torch.equal(returns.agent.online.head.last.weight, ddqn.agent.online.head.last.weight)


@COUNTING
def test_a_bonus_stands_beside_the_reward_and_never_in_what_is_logged(agent: str) -> None:
    seen: list[Step] = []
    learner = small(agent, ConstantReward).learn(70, lambda _, step: seen.append(step))
    assert {episode.raw_return for step in seen for episode in step.episodes} == {1.0}
    batch = learner.agent.replay.gather(*learner.agent.replay.index())
    assert (batch.reward[:, 0] if batch.reward.ndim == 2 else batch.reward).tolist() == [1.0] * len(batch.action)
    assert batch.bonus is not None
    first = batch.bonus[:, 0] if batch.bonus.ndim == 2 else batch.bonus
    assert (first > 0).all()


def test_bonuses_fall_with_the_square_root_of_visits_in_all_environments_together() -> None:
    learner = small("dqn-counts", "FrozenLake-v1", 2, bonus_scale=2.0, buffer_size=400, n_steps=1)
    visits = np.zeros(16)
    expected = []

    def count(_: Learner, step: Step) -> None:
        for obs in step.next_obs:
            expected.append(2 / np.sqrt(visits[obs] + 0.01))
            visits[obs] += 1

    learner.learn(100, count)
    replay = learner.agent.replay
    assert replay.bonuses is not None
    stored = [replay.bonuses[env, replay.is_transition[env]] for env in range(2)]
    np.testing.assert_allclose(np.stack(stored, axis=1).ravel(), expected, rtol=1e-5)
    metrics = learner.agent.metrics
    assert metrics["counts/entries"] == (visits > 0).sum()
    assert metrics["counts/pseudo_count"] == pytest.approx(np.mean([(2 / b) ** 2 - 0.01 for b in expected[-2:]]))
    assert metrics["counts/bonus"] == pytest.approx(np.mean(expected), rel=1e-5)  # of fewer than a thousand


def test_the_value_of_what_is_new_is_worth_a_bonus() -> None:
    """With one kind of observation, met once per episode: Q is the reward, and the mean of the bonuses stored."""
    settings: dict[str, Any] = {"gamma": 0.5, "learning_rate": 3e-3, "train_freq": 1, "features": 32, "batch_size": 32}
    learner = bdqn.make(
        "dqn-counts", ConstantReward, seed=1, learning_starts=50, bonus_scale=0.5, return_share=0.0, **settings
    ).learn(600)
    replay = learner.agent.replay
    assert replay.bonuses is not None
    expected = 1 + float(replay.bonuses[replay.is_transition].mean())
    assert expected > 1.05
    assert learner.q_values([1.0, 0.0]) == pytest.approx([expected] * 2, abs=0.04)


@COUNTING
def test_a_run_is_cut_where_returns_are_still_to_be_filled_in(agent: str, tmp_path: Path) -> None:
    def make() -> Learner:
        return small(agent, "CartPole-v1", 2, buffer_size=120)

    expected = fingerprint(make().learn(260))
    learner = make().learn(200)
    replay = learner.agent.replay
    batch = replay.gather(*replay.index())
    assert batch.returns is not None
    open_ones = np.isnan(batch.returns)
    assert open_ones.any()
    assert not open_ones.all()
    assert (replay.written > replay.slots).all()
    assert min(learner.envs._lengths) > 0
    bdqn.Checkpoints(tmp_path).save(learner)
    assert fingerprint(bdqn.Checkpoints(tmp_path).load().learner.learn(60)) == expected


@COUNTING
def test_a_saved_agent_goes_on_counting_where_it_was(agent: str, tmp_path: Path) -> None:
    learner = small(agent, DelayedReward).learn(60)
    learner.save(tmp_path / "agent")
    loaded = bdqn.load(tmp_path / "agent", env=DelayedReward)
    assert loaded.agent.bonuses is not None
    obs = learner.envs.obs
    assert loaded.agent.bonuses.of(obs).tolist() == learner.agent.bonuses.of(obs).tolist()
    assert loaded.agent.bonuses.metrics() == learner.agent.bonuses.metrics()


@COUNTING
def test_counts_that_cannot_be_are_refused(agent: str, tmp_path: Path) -> None:
    learner = small(agent, "CartPole-v1").learn(40)
    state = learner.agent.state()
    model = state["bonuses"]["model"]
    for wrong in ({}, {**model, "counts": model["counts"][1:]}, {**model, "counts": -model["counts"]}):
        with pytest.raises((ValueError, KeyError)):
            learner.agent.load_state({**state, "bonuses": {**state["bonuses"], "model": wrong}})


def test_evaluation_counts_nothing() -> None:
    from bdqn.runs.evaluation import evaluate

    learner = small("dqn-counts", "FrozenLake-v1").learn(60)
    before = learner.agent.state()["bonuses"]["model"]["counts"].tolist()
    evaluate(learner, 3)
    learner.predict(0, deterministic=False)
    assert learner.agent.state()["bonuses"]["model"]["counts"].tolist() == before
