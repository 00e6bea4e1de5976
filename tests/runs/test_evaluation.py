"""Evaluations measure, and leave the training as it is."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

import bdqn
from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.envs.supervision import time_limit
from bdqn.runs import evaluation
from bdqn.runs.evaluation import Evaluation, evaluate
from bdqn.storage.checkpoints import ENVIRONMENTS, REPLAY_TAIL
from bdqn.storage.saved_agents import AGENT
from support.cli import Train

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


CIRCLES = {"learning_starts": 10, "buffer_size": 100, "features": 4}  # a new agent walks against a wall for ever


def test_an_episode_that_nothing_ends_is_cut_and_that_is_told() -> None:
    learner = bdqn.make("ddqn", "CliffWalking-v1", **CIRCLES)
    with time_limit(20):  # else it would not fail, but never end
        result = evaluate(learner, 3, max_steps=40)
    assert (result.lengths, result.cut) == ((40, 40, 40), 3)
    assert result.remark == "3 of 3 episodes did not end within 40 decisions"
    assert evaluate(bdqn.make("random", "CliffWalking-v1", **CIRCLES), 1, seed=1).cut == 0


def test_without_a_time_limit_an_evaluation_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_STEPS", 30)
    with time_limit(20):
        assert evaluate(bdqn.make("ddqn", "CliffWalking-v1", **CIRCLES), 1).lengths == (30,)
    limited = evaluate(bdqn.make("random", "CartPole-v1", buffer_size=100), 20)
    assert max(limited.lengths) > 30  # an environment's own time limit holds, whatever it is
    assert limited.cut == 0
    assert limited.remark == ""


def test_a_run_says_when_an_evaluation_was_cut(
    capsys: pytest.CaptureFixture[str], train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MAX_STEPS", 20)
    words = ("--agent", "ddqn", "--env", "CliffWalking-v1", "--eval-freq", "50", "--eval-episodes", "2")
    with time_limit(20):
        folder = train("run", *words, steps=100)
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(
        "bdqn: In the evaluation after 50 decisions, 2 of 2 episodes did not end within 20 decisions"
    )
    assert "--eval-max-steps" in told
    assert main(["evaluate", str(folder), "--episodes", "2", "--max-steps", "7"]) == 0
    assert "2 of 2 episodes did not end within 7 decisions (--max-steps)" in capsys.readouterr().out
    assert main(["evaluate", str(folder), "--episodes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cut"] == 1


def test_mean_and_std_are_over_episodes() -> None:
    result = Evaluation(returns=(1.0, 3.0), lengths=(1, 3), spread=None)
    assert (result.mean, result.std) == (2.0, 1.0)
