"""Calibrating an agent: in Python, from the command line, kept beside it, and gone when it learns on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import bdqn
from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.qlearning.calibration import Calibration, NotCalibrated
from bdqn.runs.evaluation import evaluate
from bdqn.storage.safe_files import DamagedFile
from support.cli import Train
from support.fingerprints import fingerprint
from support.small import small


class Wager(gym.Env[Any, Any]):
    """One decision: the first action pays 10 on average, the other nothing; both with noise of 3."""

    observation_space, action_space = spaces.Box(0, 1, (1,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.ones(1, np.float32), 10.0 * (action == 0) + 3.0 * self.np_random.normal(), True, False, {}


@pytest.fixture(scope="module")
def learner() -> bdqn.Learner:
    return bdqn.make("bdqn", Wager, seed=1, learning_starts=100, buffer_size=2000, features=16).learn(600)


def test_what_the_posterior_is_sure_of_is_not_what_happens(learner: bdqn.Learner) -> None:
    """The mean is known to a fraction of the noise: intervals of q.std hold few returns, calibrated ones what they say.

    Those are about as wide as the noise, which is known here.
    """
    learner.calibrate(200)
    outcomes = evaluate(learner, 400, spread=True).outcomes
    assert outcomes is not None
    assert outcomes.coverage().verdict == "overconfident"
    assert learner.calibration is not None
    for level in (0.5, 0.9):
        assert outcomes.calibrated_coverage(learner.calibration, level).held == pytest.approx(level, abs=0.07)
    q = learner.q_posterior(np.ones(1, np.float32))
    (low, high), std = q.interval(0.9), q.calibrated_std
    assert std is not None
    assert (low[0], high[0]) == (pytest.approx(10 - 1.645 * 3, abs=1.2), pytest.approx(10 + 1.645 * 3, abs=1.2))
    assert std[0] == pytest.approx(3, abs=0.6)
    batch = learner.q_posterior(np.ones((5, 1), np.float32))
    assert batch.interval(0.9)[1].shape == (5, 2)


def test_it_says_what_to_do_before_it_is_calibrated() -> None:
    learner = small("bdqn", Wager).learn(60)
    q = learner.q_posterior(np.ones(1, np.float32))
    assert q.calibrated_std is None
    with pytest.raises(NotCalibrated, match=r"call learner\.calibrate\(\)"):
        q.interval(0.9)
    with pytest.raises(SettingError, match="at least 19 episodes, for 90% intervals, not 18"):
        learner.calibrate(18)
    learner.calibrate(19)
    with pytest.raises(NotCalibrated, match="at least 199 episodes"):
        learner.q_posterior(np.ones(1, np.float32)).interval(0.99)
    with pytest.raises(TypeError, match="ddqn keeps no posterior over Q to calibrate"):
        small("ddqn", Wager).calibrate()


def test_calibrating_disturbs_nothing_and_learning_on_drops_it() -> None:
    learner, other = small("bdqn", Wager).learn(60), small("bdqn", Wager).learn(60)
    learner.calibrate(20)
    assert learner.calibration is not None
    assert fingerprint(learner) == fingerprint(other)
    learner.learn(1)
    assert learner.calibration is None
    assert learner.q_posterior(np.ones(1, np.float32)).calibrated_std is None


def test_the_seed_decides_a_calibration_and_it_plays_other_episodes_than_an_evaluation(learner: bdqn.Learner) -> None:
    def distances(seed: int) -> list[float]:
        return [float(own[0]) for own in learner.calibrate(20, seed=seed).distances]

    assert distances(3) == distances(3)
    assert distances(3) != distances(4)
    outcomes = evaluate(learner, 20, seed=3, spread=True).outcomes
    assert outcomes is not None
    q, plain = outcomes.mean, ((outcomes.outcome - outcomes.mean) / outcomes.predictive_std).tolist()
    assert len(q) == 20
    assert not set(distances(3)) & set(plain)


def test_returns_of_another_policy_say_nothing_of_q(learner: bdqn.Learner) -> None:
    assert evaluate(learner, 1, spread=True, epsilon=0.1).outcomes is None
    assert evaluate(learner, 1, spread=True, deterministic=False).outcomes is None
    assert evaluate(learner, 1).outcomes is None


def test_a_time_limit_hides_returns_and_that_is_refused() -> None:
    """Nothing ends an episode but the limit, and 20 decisions leave out 0.99^20 of all that follows."""
    learner = bdqn.make("bdqn", "CliffWalking-v1", learning_starts=20, buffer_size=100, features=4).learn(30)
    with pytest.raises(NotCalibrated, match="has 0, and in 20 others a time limit hides every return"):
        learner.calibrate(20, max_steps=20)


def test_clipped_rewards_and_units_count_as_q_counts_them() -> None:
    """Q is of rewards clipped to 1 while 10 are paid, and the regression's unit is not the environment's."""
    for settings in ({"reward_clip": 1.0, "reward_scaling": False}, {"reward_scaling": True}):
        learner = small("bdqn", Wager, **settings).learn(200)
        outcomes = evaluate(learner, 20, spread=True).outcomes
        assert outcomes is not None
        limit = settings.get("reward_clip", 30.0)
        assert np.abs(outcomes.outcome).max() <= limit
        q = learner.q_posterior(np.ones(1, np.float32))
        best = int(q.mean.argmax())
        np.testing.assert_allclose(outcomes.mean, q.mean[best])
        np.testing.assert_allclose(outcomes.std, q.std[best])
        np.testing.assert_allclose(outcomes.predictive_std, q.predictive_std[best])


# --- kept -----------------------------------------------------------------------------------------------------------


def distances_of(calibration: Calibration | None) -> list[list[float]]:
    assert calibration is not None
    return [own.tolist() for own in calibration.distances]


def test_a_saved_agent_keeps_its_calibration(tmp_path: Path, learner: bdqn.Learner) -> None:
    made = learner.calibrate(20)
    learner.save(tmp_path / "agent")
    loaded = bdqn.load(tmp_path / "agent", Wager)
    np.testing.assert_allclose(distances_of(loaded.calibration), distances_of(made), rtol=1e-5)
    assert loaded.q_posterior(np.ones(1, np.float32)).interval(0.9)[0].shape == (2,)
    loaded.save(tmp_path / "agent")  # replaces it, calibration and all
    loaded.learn(150)
    loaded.save(tmp_path / "agent")
    assert not (tmp_path / "agent" / "calibration.json").exists()
    assert bdqn.load(tmp_path / "agent", Wager).calibration is None


def test_a_calibration_of_other_weights_is_not_taken_for_its_own(tmp_path: Path, learner: bdqn.Learner) -> None:
    learner.calibrate(20)
    learner.save(tmp_path / "one")
    other = bdqn.make("bdqn", Wager, seed=2, learning_starts=100, buffer_size=2000, features=16).learn(600)
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "one" / "calibration.json", tmp_path / "other")
    assert bdqn.load(tmp_path / "other", Wager).calibration is None


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"steps": 600}',
        '{"steps": 1, "agent": "a", "distances": 7}',
        '{"steps": 1, "agent": "a", "distances": [[1, NaN]]}',
        '{"steps": 1, "agent": "a", "distances": [[1.0]]}',
    ],
)
def test_a_damaged_calibration_is_named(tmp_path: Path, learner: bdqn.Learner, text: str) -> None:
    learner.save(tmp_path / "agent")
    path = tmp_path / "agent" / "calibration.json"
    path.write_text(text)
    with pytest.raises(DamagedFile, match=r"calibration\.json"):
        bdqn.load(tmp_path / "agent", Wager)


def test_a_run_is_calibrated_from_the_command_line(
    train: Train, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = train("run")
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--calibrate", "--calibration-episodes", "25", "--keep"]) == 0
    told = capsys.readouterr().out
    assert f"25 other episodes, in {folder / 'calibration.json'}" in told
    by_std, calibrated = (line for line in told.splitlines() if "90 % intervals hold" in line)
    assert "overconfident" in by_std
    assert "right, as far as 20 episodes tell" in calibrated
    assert bdqn.load(folder).calibration is not None

    assert main(["evaluate", str(folder), "--json", "--seed", "7"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["coverage"]["held"] < 0.5 < 0.75 < found["calibrated_coverage"]["held"]
    assert main(["watch", str(folder), "--out", str(tmp_path / "watch.html"), "--greedy"]) == 0
    page = (tmp_path / "watch.html").read_text()
    assert page.count("90 % intervals hold") == 2
    assert "it explores here" not in page
    assert main(["report", str(folder), "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "How sure, truthfully" in page
    assert page.count("90 % intervals hold") == 2

    assert main(["resume", str(folder), "--steps", "700", "--quiet"]) == 0
    assert bdqn.load(folder).calibration is None
    capsys.readouterr()
    assert main(["evaluate", str(folder)]) == 0
    assert capsys.readouterr().out.count("90 % intervals hold") == 1


def test_what_cannot_be_calibrated_is_said(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train("run")
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--calibrate", "--best"]) == 2
    assert "--calibrate applies to the newest checkpoint" in capsys.readouterr().err
    assert main(["evaluate", str(folder), "--calibrate", "--calibration-episodes", "5"]) == 2
    assert "at least 19 episodes" in capsys.readouterr().err
    assert not (folder / "calibration.json").exists()
    other = train("ddqn", "--agent", "ddqn")
    capsys.readouterr()
    assert main(["evaluate", str(other), "--calibrate"]) == 2
    assert "ddqn keeps no posterior over Q" in capsys.readouterr().err
    assert main(["evaluate", str(other), "--episodes", "2"]) == 0
    assert "intervals" not in capsys.readouterr().out
