"""Every agent learns the right values where they are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bdqn
from bdqn.agents import AGENTS
from bdqn.config.resolve import unread
from bdqn.config.settings import settings_of
from support.probes import (
    ActionReward,
    ConstantReward,
    DelayedReward,
    EndlessButCut,
    MatchingAction,
    ObservedReward,
    Probe,
)

ALL = [name for name, recipe in AGENTS.items() if recipe.choices(recipe.settings()).learns]
LEARNERS = pytest.mark.parametrize("agent", ALL)
KINDS = pytest.mark.parametrize("agent", ["ddqn", "bootstrapped", "bdqn"])  # where only what all agents share is asked
PLUS, MINUS = [1.0, 0.0], [-1.0, 0.0]
TRAINING = {
    "learning_starts": 100,
    "learning_rate": 3e-3,
    "target_update_interval": 50,
    "train_freq": 1,
    "batch_size": 32,
    "gamma": 0.5,
    "features": 32,
}
OWN = {
    "exploration_decay_steps": 400,
    "temperature_decay_steps": 400,
    "posterior_update_interval": 50,
    # At the paper's 0.5 every prediction and every target lacks half of the features: values keep that noise.
    "dropout_rate": 0.1,
}


def trained(agent: str, probe: type[Probe], steps: int = 500, **settings: Any) -> bdqn.Learner:
    """Values are read without masks, without noise, and as the mean over members or draws."""
    known = settings_of(AGENTS[agent].settings).keys() - unread(AGENTS[agent].settings(), OWN)
    own = {name: value for name, value in OWN.items() if name in known}
    return bdqn.make(agent, probe, seed=1, **TRAINING, **own, **settings).learn(steps)


@KINDS
def test_a_constant_reward_is_learned(agent: str) -> None:
    np.testing.assert_allclose(trained(agent, ConstantReward).q_values([PLUS, MINUS]), 1.0, atol=0.1)


@LEARNERS
def test_value_depends_on_the_observation(agent: str) -> None:
    # A prior of 5 % of the values shrinks the mean until there are data enough.
    steps = 2000 if agent == "bdqn-explore" else 500
    q = trained(agent, ObservedReward, steps).q_values([PLUS, MINUS])
    np.testing.assert_allclose(q, [[1.0, 1.0], [-1.0, -1.0]], atol=0.15)


@LEARNERS
def test_the_better_action_is_found(agent: str) -> None:
    learner = trained(agent, ActionReward)
    assert learner.predict([PLUS, MINUS])[0].tolist() == [1, 1]
    np.testing.assert_allclose(learner.q_values(PLUS)[1], 1.0, atol=0.15)


@LEARNERS
def test_a_delayed_reward_is_discounted_once(agent: str) -> None:
    q = trained(agent, DelayedReward).q_values([[1.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(q, [[0.5, 0.5], [1.0, 1.0]], atol=0.1)


@LEARNERS
def test_the_action_follows_the_observation(agent: str) -> None:
    learner = trained(agent, MatchingAction)
    assert learner.predict([PLUS, MINUS])[0].tolist() == [1, 0]


@LEARNERS
def test_truncation_bootstraps(agent: str) -> None:
    learner = trained(agent, EndlessButCut, steps=800)  # each value rests on the one before
    np.testing.assert_allclose(learner.q_values([0.0, 0.0]), 2.0, atol=0.1)


@KINDS
def test_a_timeout_can_be_made_terminal(agent: str) -> None:
    learner = trained(agent, EndlessButCut, timeout_is_terminal=True)
    np.testing.assert_allclose(learner.q_values([0.0, 0.0]), 1.0, atol=0.1)


@KINDS
def test_several_environments_at_once_learn_the_same(agent: str) -> None:
    learner = trained(agent, DelayedReward, num_envs=4)
    np.testing.assert_allclose(learner.q_values([[1.0, 0.0], [1.0, 1.0]]), [[0.5, 0.5], [1.0, 1.0]], atol=0.1)


@KINDS
def test_rewards_of_several_steps_add_up(agent: str) -> None:
    learner = trained(agent, DelayedReward, n_steps=3)
    np.testing.assert_allclose(learner.q_values([[1.0, 0.0], [1.0, 1.0]]), [[0.5, 0.5], [1.0, 1.0]], atol=0.1)
