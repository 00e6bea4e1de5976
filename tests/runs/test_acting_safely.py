"""Acting by what is safe: in evaluations, from the command line, and as a setting of the agent."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import bdqn
from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.qlearning.calibration import Calibration
from bdqn.qlearning.judgement import safe_policy
from bdqn.runs.evaluation import evaluate
from support.cli import Train

OBS = np.ones(1, np.float32)


class Gamble(gym.Env[Any, Any]):
    """One decision: the first action pays 1 for certain; the other 1.5 on average, with noise of 3."""

    certain = 1.0
    observation_space, action_space = spaces.Box(0, 1, (1,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return OBS, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return OBS, 1.5 + 3.0 * self.np_random.normal() if action else self.certain, True, False, {}


class Poor(Gamble):
    """The gamble is worse on average, too."""

    certain = 2.0


def gambler(env: type[Gamble] = Gamble, **settings: Any) -> bdqn.Learner:
    """It tries both actions equally often, and learns the noise of each."""
    learner = bdqn.make(
        "bdqn",
        env,
        seed=1,
        learning_starts=500,
        buffer_size=2000,
        features=16,
        noise="inverse-gamma",
        reward_scaling=False,
        **settings,
    )
    rng = np.random.default_rng(0)
    return learner.learn(1500, policy=lambda obs: rng.integers(2, size=len(obs)))


@pytest.fixture(scope="module")
def learner() -> bdqn.Learner:
    return gambler()


@pytest.mark.parametrize("criterion", ["lcb", "cvar"])
def test_who_acts_safely_leaves_the_gamble(learner: bdqn.Learner, criterion: str) -> None:
    """The mean gambles, and loses money in every third episode; a calibrated bound takes what is certain."""
    learner.calibrate(50)
    by_mean = evaluate(learner, 100, seed=1)
    safely = evaluate(learner, 100, seed=1, policy=safe_policy(criterion, 0.9, learner.calibration))
    assert np.mean(np.array(by_mean.returns) < 0) > 0.2
    assert set(safely.returns) == {1.0}
    assert by_mean.mean > safely.mean


def test_it_says_which_action_is_safe(learner: bdqn.Learner) -> None:
    learner.calibrate(50)
    found = learner.safety(OBS, "probability", threshold=0.0, level=0.9)
    assert found.returns.spread == "calibrated"
    assert found.safe.tolist() == [True, False]
    assert found.degree[1] == pytest.approx(0.69, abs=0.15)  # P(1.5 + 3 z > 0)
    sure = learner.safety(OBS, "probability", threshold=0.0, level=0.9, spread="epistemic")
    assert sure.safe.tolist() == [True, True], "the mean return of the gamble is above zero, and that is all it says"
    assert learner.safety(np.stack([OBS, OBS]), threshold=0.0).degree.shape == (2, 2)


def test_spread_never_counts_in_favour_of_an_action() -> None:
    """Where Q is too low, even bad returns lie above it; an action nobody has tried is not safe for that."""
    learner = gambler(Poor)
    too_low = Calibration(learner.num_timesteps, tuple(np.array([50.0 + i]) for i in range(50)))
    returns = evaluate(learner, 50, policy=safe_policy("lcb", 0.9, too_low)).returns
    assert returns == (2.0,) * 50


@pytest.mark.parametrize("settings", [{"acting": "lcb", "lcb_scale": 40.0}, {"acting": "cvar", "cvar_alpha": 1e-6}])
def test_an_agent_can_act_safely_as_it_learns(settings: dict[str, Any]) -> None:
    agent = gambler(**settings)
    assert evaluate(agent, 20, deterministic=False).returns == (1.0,) * 20
    with pytest.raises(SettingError, match="lcb_scale has an effect only with acting = lcb"):
        gambler(acting="mean", lcb_scale=2.0)


def test_what_a_safe_policy_cannot_do_is_refused(learner: bdqn.Learner) -> None:
    with pytest.raises(SettingError, match="probability needs a threshold"):
        safe_policy("probability", 0.9, None)
    ddqn = bdqn.make("ddqn", Gamble, learning_starts=10, buffer_size=100, features=4)
    with pytest.raises(TypeError, match="keeps no posterior"):
        evaluate(ddqn, 1, policy=safe_policy("lcb", 0.9, None))


def test_the_command_line_acts_safely(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(train("run"))
    capsys.readouterr()
    assert main(["evaluate", folder, "--act", "safe:lcb", "--episodes", "2"]) == 0
    told = capsys.readouterr().out
    assert "acts by" in told
    assert "by the std of Q, which is not that of returns (--calibrate)" in told
    assert "intervals hold" not in told, "these are not the returns of the policy that Q is of"
    words = ["--act", "safe:cvar", "--safety-level", "0.8", "--calibrate", "--calibration-episodes", "20"]
    assert main(["evaluate", folder, *words, "--episodes", "2", "--json"]) == 0
    assert '"act": "safe:cvar, 0.8, calibrated on returns"' in capsys.readouterr().out
    assert main(["evaluate", folder, "--act", "safe:lcb", "--keep"]) == 2
    assert "omit --act, or --keep" in capsys.readouterr().err
    assert main(["evaluate", folder, "--act", "lcb"]) == 2
    assert "act must be one of mean, safe:lcb, safe:cvar" in capsys.readouterr().err
