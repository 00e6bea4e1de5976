"""Evaluations measure, and leave the training as it is."""

from __future__ import annotations

import gymnasium as gym
import pytest

import bdqn
from bdqn.checkpoint import AGENT, ENVIRONMENTS, REPLAY_TAIL
from bdqn.evaluation import Evaluation, evaluate
from bdqn.settings import SettingError

from .conftest import Train

SMALL = {"learning_starts": 100, "buffer_size": 2000, "features": 16}


@pytest.fixture(scope="module")
def learner() -> bdqn.Learner:
    return bdqn.make("bdqn", "CartPole-v1", seed=1, **SMALL).learn(400)


def test_training_is_the_same_bytes_with_and_without_evaluation(train: Train) -> None:
    without, with_ = train("a"), train("b", "--eval-freq", "150", "--eval-episodes", "2")
    saved = [f"checkpoints/gen-000000000600/{name}" for name in (*AGENT, *ENVIRONMENTS, REPLAY_TAIL)]
    for name in ("episodes.csv", "metrics.csv", *saved):
        assert (without / name).read_bytes() == (with_ / name).read_bytes()
    assert not (without / "evaluations.csv").exists()
    table = [line.split(",") for line in (with_ / "evaluations.csv").read_text().splitlines()]
    assert table[0] == ["step", "mean_reward", "std_reward", "episodes"]
    assert [row[0] for row in table[1:]] == ["150", "300", "450", "600"]
    assert all(row[3] == "2" for row in table[1:])


# Each source of chance alone: the environment, epsilon, and the draws.
@pytest.mark.parametrize(("deterministic", "epsilon"), [(True, 0.0), (True, 0.3), (False, 0.0)])
def test_the_seed_decides_an_evaluation(learner: bdqn.Learner, deterministic: bool, epsilon: float) -> None:
    first, again, other = (
        evaluate(learner, 5, deterministic=deterministic, epsilon=epsilon, seed=seed) for seed in (4, 4, 5)
    )
    assert first == again
    assert first.returns != other.returns
    assert len(first.returns) == len(first.lengths) == 5


def test_epsilon_one_plays_at_random(learner: bdqn.Learner) -> None:
    result = evaluate(learner, 100, epsilon=1.0)
    assert 18 < result.mean < 27  # a random policy balances for about 22 steps


def test_the_random_agent_is_random_when_evaluated() -> None:
    result = evaluate(bdqn.make("random", "CartPole-v1", buffer_size=100), 100)
    assert 18 < result.mean < 27  # any constant action falls in 10 steps or less


def test_spread_is_known_for_a_posterior_only(learner: bdqn.Learner) -> None:
    spread = evaluate(learner, 1, spread=True).spread
    assert spread is not None
    assert spread > 0
    assert evaluate(learner, 1).spread is None
    assert evaluate(bdqn.make("ddqn", "CartPole-v1", **SMALL), 1, spread=True).spread is None


def test_an_environment_instance_is_refused() -> None:
    env = gym.make("CartPole-v1", disable_env_checker=True)
    with pytest.raises(SettingError, match=r"environment instance.*function that makes"):
        evaluate(bdqn.make("ddqn", env, **SMALL), 1)


def test_mean_and_std_are_over_episodes() -> None:
    result = Evaluation(returns=(1.0, 3.0), lengths=(1, 3), spread=None)
    assert (result.mean, result.std) == (2.0, 1.0)
