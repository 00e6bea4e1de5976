"""Spiking: somebody else decides, and the agent learns from that as from its own decisions."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import bdqn
from support.fingerprints import fingerprint
from support.masked import ACTIONS, Masked
from support.small import small


def rule(obs: np.ndarray) -> np.ndarray:
    """Push the cart towards where the pole falls."""
    return (obs[:, 2] + obs[:, 3] > 0).astype(np.int64)


def stored(learner: bdqn.Learner) -> Any:
    replay = learner.agent.replay
    return replay.gather(*replay.index())


@pytest.mark.parametrize("num_envs", [1, 3])
def test_what_the_policy_does_is_stored_and_counts_as_decisions(num_envs: int) -> None:
    learner = small("bbq", "CartPole-v1", num_envs, buffer_size=600).learn(300, policy=rule)
    batch = stored(learner)
    assert len(batch.action) >= 297
    np.testing.assert_array_equal(batch.action, rule(batch.obs))
    assert learner.num_timesteps == 300
    assert learner.agent.updates > 0  # it learns meanwhile
    learner.learn(120)
    assert (stored(learner).action != rule(stored(learner).obs)).any()  # now it decides itself


class Climb(gym.Env[np.ndarray, int]):
    """Every step up costs a little, a wrong one leads back to the ground, and only the twentieth pays."""

    observation_space, action_space = spaces.Box(0.0, 1.0, (21,), np.float32), spaces.Discrete(2)

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        self.height = 0
        return self.seen(), {}

    def seen(self) -> np.ndarray:
        return np.eye(21, dtype=np.float32)[self.height]

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        is_up = action == way_up(self.height)
        self.height = self.height + 1 if is_up else 0
        over = self.height == 20
        return self.seen(), 1.0 if over else -0.01 * is_up, over, False, {}


def way_up(height: Any) -> Any:
    return height * height // 3 % 2


def test_five_good_episodes_teach_what_it_would_not_have_found() -> None:
    settings = {"buffer_size": 5000, "learning_rate": 3e-3, "kl_scale": 0.01, "features": 32, "train_freq": 1}
    plain, spiked = (small("bbq", Climb, **settings) for _ in range(2))
    spiked.learn(100, policy=lambda obs: way_up(obs.argmax(1))).learn(400)
    plain.learn(500)
    assert stored(plain).reward.max() <= 0
    ground = np.eye(21)[0]
    assert spiked.q_values(ground)[way_up(0)] > 0.1 > plain.q_values(ground).max()


def test_actions_are_given_as_the_environment_takes_them() -> None:
    class Several(gym.Env[np.ndarray, Any]):
        observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        action_space = spaces.MultiDiscrete([2, 3], start=[0, 5])
        taken: ClassVar[list[list[int]]] = []

        def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
            return np.zeros(2, np.float32), {}

        def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            self.taken.append(np.asarray(action).tolist())
            return np.zeros(2, np.float32), 0.0, False, False, {}

    learner = small("ddqn", Several).learn(5, policy=lambda obs: np.array([[1, 7]]))
    assert Several.taken == [[1, 7]] * 5
    assert stored(learner).action.tolist() == [5] * 5  # the last of six combinations


@pytest.mark.parametrize(
    "given", [[2], [0, 1], [0.0], [[0]], ["0"], 0], ids=["unknown", "too many", "float", "2-d", "text", "no array"]
)
def test_what_is_no_action_is_refused_and_changes_nothing(given: Any) -> None:
    learner = small("bbq", "CartPole-v1").learn(40)
    before = fingerprint(learner)
    with pytest.raises(ValueError, match=r"one action of Discrete\(2\) for each environment"):
        learner.learn(3, policy=lambda obs: given)
    assert learner.is_whole
    assert fingerprint(learner) == before
    learner.learn(3)


def test_actions_that_do_not_start_at_zero_are_counted_from_there() -> None:
    learner = small("bbq", Masked)
    own = int(learner.envs.allowed[0].argmax())
    learner.learn(1, policy=lambda obs: np.array([own + 2]))
    assert learner.agent.replay.actions[0, 0] == own
    assert learner.agent.replay.rewards[0, 0] == (own + 2) / 4  # what the environment was told


def test_a_forbidden_action_is_refused() -> None:
    learner = small("bbq", Masked)
    with pytest.raises(ValueError, match="allow"):
        learner.learn(2000, policy=lambda obs: np.full(len(obs), ACTIONS - 1))
