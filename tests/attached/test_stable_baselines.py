"""Agents of Stable-Baselines3, trained here, and its replay buffer in all of its forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import bdqn
from bdqn.attached.agents import q_source
from bdqn.attached.sources import transitions_of
from bdqn.attached.transitions import Transitions

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3, from the dev extra")

from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

QUICK: dict[str, Any] = {"learning_starts": 200, "target_update_interval": 200, "device": "cpu", "seed": 0}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def cartpole() -> DQN:
    return DQN("MlpPolicy", "CartPole-v1", learning_rate=1e-3, buffer_size=4_000, **QUICK).learn(5_000)


def read(model: DQN) -> Transitions:
    return transitions_of(None, q_source(model), samples=0, epsilon=0, rng=np.random.default_rng(0))


def test_a_trained_agent_needs_no_other_argument(cartpole: DQN) -> None:
    found = bdqn.attach(cartpole)
    assert found.gamma == 0.99
    assert found.transitions_per_action.sum() + found.calibration.rows == 4_000
    obs = cartpole.replay_buffer.observations[:100, 0]
    q = found.q_posterior(obs)
    own = cartpole.q_net(torch.as_tensor(obs)).detach().numpy()
    assert np.abs(q.mean - own).mean() < 0.1 * np.abs(own).mean()
    far = found.q_posterior(np.array([20.0, -20.0, 3.0, 20.0]))
    assert (far.std > 5 * q.std.mean(0)).all()


def test_its_own_evaluation_accepts_what_is_returned(cartpole: DQN) -> None:
    with_policy = DummyVecEnv([lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))])
    returns, lengths = evaluate_policy(bdqn.attach(cartpole), with_policy, 3, return_episode_rewards=True, warn=False)
    assert returns == [float(length) for length in lengths]


def test_double_q_with_its_target_network(cartpole: DQN) -> None:
    found = bdqn.attach(cartpole, target_network=cartpole.q_net_target)
    assert found.posterior.mean.shape == (2, 65)


def test_an_environment_instead_of_its_buffer(cartpole: DQN) -> None:
    found = bdqn.attach(cartpole, "CartPole-v1", samples=400, epsilon=0.5)
    assert found.transitions_per_action.sum() + found.calibration.rows == 400


class Images(gym.Env[NDArray[np.uint8], int]):
    """A bright column wanders over a picture, channels last, as an Atari screen has them."""

    observation_space = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 18
        return self._picture(), {}

    def _picture(self) -> NDArray[np.uint8]:
        picture = np.zeros((36, 36, 1), np.uint8)
        picture[:, self.place] = 255
        return picture

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        self.place = int(np.clip(self.place + 2 * action - 1, 0, 35))
        return self._picture(), float(action), self.place in (0, 35), False, {}


def test_images_are_scaled_and_turned_as_the_agent_does() -> None:
    model = DQN("CnnPolicy", Images(), buffer_size=400, **QUICK)
    model.learn(300)
    found = bdqn.attach(model)
    obs = model.replay_buffer.observations[:5, 0]  # (1, 36, 36): turned by its wrapper
    own = model.q_net(torch.as_tensor(obs)).detach().numpy()
    network = q_source(model).network(obs[:2])
    np.testing.assert_allclose(network.rows(obs)[1], own, rtol=1e-5, atol=1e-6)
    assert found.q_posterior(obs).mean.shape == (5, 2)


@pytest.mark.filterwarnings("ignore::bdqn.attached.discount.GammaWarning")  # it is hardly trained
def test_discrete_observations_are_encoded_as_the_agent_does() -> None:
    model = DQN("MlpPolicy", "FrozenLake-v1", buffer_size=400, **QUICK).learn(400)
    found = bdqn.attach(model)
    assert found.q_posterior(np.array([0, 3, 7])).mean.shape == (3, 4)
    assert found.q_posterior(5).std.shape == (4,)


class Counter(gym.Env[NDArray[np.float32], int]):
    """Observations count all steps ever taken, so that every successor can be told; even episodes are cut off."""

    observation_space = gym.spaces.Box(0, 1e6, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.total, self.episode = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.age = self.episode + 1, 0
        self.total += 100
        return np.array([self.total], np.float32), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.total, self.age = self.total + 1, self.age + 1
        over, cut = self.age == 7, self.episode % 2 == 0
        return np.array([self.total], np.float32), float(self.total), over and not cut, over and cut, {}


@pytest.mark.parametrize("full", [False, True], ids=["half full", "overwritten"])
@pytest.mark.parametrize("shared", [False, True], ids=["plain", "optimize_memory_usage"])
@pytest.mark.parametrize("envs", [1, 3])
def test_the_replay_buffer_is_read_row_by_row(full: bool, shared: bool, envs: int) -> None:
    """Against what really happened: every observation names its successor and its reward."""
    kwargs = {"handle_timeout_termination": False} if shared else {}
    size, steps = 240, (1_000 if full else 120)
    model = DQN(
        "MlpPolicy",
        DummyVecEnv([Counter] * envs),
        buffer_size=size,
        optimize_memory_usage=shared,
        replay_buffer_kwargs=kwargs,
        device="cpu",
        learning_starts=10_000,
    ).learn(steps)
    data = read(model)
    rows = size // envs if full else steps // envs
    assert len(data) == (rows - 1 if shared and full else rows) * envs
    place = data.obs[:, 0]
    np.testing.assert_array_equal(data.reward, place + 1)
    # Where memory is shared, the observation after an episode's last is the next one's first; SB3 has no other.
    ends = np.isin(data.next_obs[:, 0] - place, [1.0], invert=True)
    np.testing.assert_array_equal(data.next_obs[~ends, 0], place[~ends] + 1)
    if shared:
        assert data.terminal[ends].all(), "nothing is bootstrapped from there"
    else:
        assert not ends.any()
        assert 0.03 < data.terminal.mean() < 0.12, "every 7th row ends an episode, every second end is a time limit"


def test_a_time_limit_is_bootstrapped_from() -> None:
    model = DQN("MlpPolicy", Counter(), buffer_size=400, device="cpu", learning_starts=10_000).learn(280)
    data = read(model)
    age = np.arange(280) % 7 + 1
    assert data.terminal.tolist() == [bool(a == 7 and (i // 7) % 2 == 0) for i, a in enumerate(age)]


def test_a_normalised_environment_is_learned_from_in_its_units() -> None:
    env = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
    model = DQN("MlpPolicy", env, buffer_size=600, **QUICK).learn(600)
    data = read(model)
    raw = model.replay_buffer
    assert isinstance(raw, ReplayBuffer)
    np.testing.assert_allclose(data.obs, env.normalize_obs(raw.observations[:, 0]), rtol=1e-5)
    np.testing.assert_allclose(data.reward, env.normalize_reward(raw.rewards[:, 0]), rtol=1e-5)
