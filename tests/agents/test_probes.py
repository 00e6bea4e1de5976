"""Every agent learns the right values where they are known."""

from __future__ import annotations

import numpy as np
import pytest

from support.probes import (
    LEARNING,
    ActionReward,
    ConstantReward,
    DelayedReward,
    EndlessButCut,
    MatchingAction,
    ObservedReward,
    trained,
)

LEARNERS = pytest.mark.parametrize("agent", LEARNING)
KINDS = pytest.mark.parametrize("agent", ["ddqn", "bootstrapped", "bdqn"])  # where only what all agents share is asked
PLUS, MINUS = [1.0, 0.0], [-1.0, 0.0]


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
