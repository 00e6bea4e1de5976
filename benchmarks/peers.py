"""Other libraries' DQN on the same work as ours: same environments, network, batch, update rate and replay capacity.

Each contestant is a function that takes that many more decisions, with learning, and keeps its state between calls, so
that whoever calls it repeatedly times a steady state. Every environment comes from `bdqn.envs.make_env`, every
contestant acts at random until ``learning_starts`` and then epsilon-greedily with its network. What is each library's
own is left alone: its loss, its gradient clipping, its replay buffer (all hold frames as bytes, grids as booleans) and
its statistics. Ours alone scales bounded observations such as CartPole's angle: two operations on four numbers.

Needs benchmarks/requirements.txt.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import Tensor, nn
from torch.nn import functional as F

from bdqn.envs import family
from work import EPSILON, Contestant, Work


def sb3_dqn(work: Work) -> Contestant:
    """Stable-Baselines3: DQN, with one forward pass per update fewer than Double DQN."""
    policies: dict[str, tuple[str, dict[str, Any]]] = {
        "atari": ("CnnPolicy", {"features_extractor_kwargs": {"features_dim": work.features}, "net_arch": []}),
        "minatar": (
            "MlpPolicy",
            {
                "features_extractor_class": GridExtractor,
                "features_extractor_kwargs": {"features_dim": work.features},
                "net_arch": [],
            },
        ),
        "classic": ("MlpPolicy", {"net_arch": [work.features] * work.layers}),
    }
    policy, policy_kwargs = policies[family(work.env_id)]
    model = DQN(
        policy,
        DummyVecEnv(work.env_makers()),
        policy_kwargs=policy_kwargs,
        learning_rate=work.learning_rate,
        buffer_size=work.buffer_size,
        learning_starts=work.learning_starts,
        batch_size=work.batch_size,
        gamma=work.gamma,
        train_freq=work.cycle // work.num_envs,  # in steps of all environments
        gradient_steps=work.updates_per_cycle,
        target_update_interval=work.target_update_interval,
        exploration_initial_eps=EPSILON,
        exploration_final_eps=EPSILON,
        device="cpu",
    )

    def take(decisions: int) -> None:
        work.cycles(decisions)  # learn would round up
        model.learn(decisions, reset_num_timesteps=False)  # continues within its episodes

    return take


def tianshou_dqn(work: Work, double: bool = True) -> Contestant:
    """Tianshou: Double DQN, or DQN, for which it makes the same forward passes and ignores one.

    By its collector and its algorithm, in the order in which its trainer calls them: the trainer itself also searches
    the whole replay buffer for missing values after every collection.
    """
    from tianshou import algorithm as algorithms
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, CollectStats, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.utils.torch_utils import policy_within_training_step

    envs = DummyVectorEnv(work.env_makers())
    observations, actions = envs.observation_space[0], envs.action_space[0]
    network = TianshouNetwork(work, observations, actions)
    policy = DiscreteQLearningPolicy(model=network, action_space=actions, eps_training=EPSILON)
    algorithm = algorithms.DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=work.learning_rate),
        gamma=work.gamma,
        target_update_freq=work.target_update_interval // work.decisions_per_update,  # in updates
        is_double=double,
    )
    buffer = VectorReplayBuffer(work.buffer_size, buffer_num=work.num_envs)
    collector = Collector[CollectStats](algorithm, envs, buffer, exploration_noise=True)
    collector.reset()

    def take(decisions: int) -> None:
        with policy_within_training_step(policy):
            for _ in range(work.cycles(decisions)):
                learns = collector.collect_step >= work.learning_starts
                collector.collect(n_step=work.cycle, random=not learns)
                for _ in range(work.updates_per_cycle if learns else 0):
                    algorithm.update(buffer, sample_size=work.batch_size)

    return take


def cleanrl_style_dqn(work: Work) -> Contestant:
    """DQN as a plain loop in the manner of CleanRL's single files, with Stable-Baselines3's replay buffer."""
    # Reset in the same step: otherwise a step without a decision would follow the end of an episode.
    envs = gym.vector.SyncVectorEnv(work.env_makers(), autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    observations, actions = envs.single_observation_space, envs.single_action_space
    assert isinstance(actions, gym.spaces.Discrete)
    online, target = (QNetwork(work, observations, actions) for _ in range(2))
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=work.learning_rate)
    replay = ReplayBuffer(
        work.buffer_size, observations, actions, "cpu", n_envs=work.num_envs, handle_timeout_termination=False
    )
    obs, _ = envs.reset()
    taken = 0

    def act() -> NDArray[np.int64]:
        if taken < work.learning_starts or np.random.random() < EPSILON:  # noqa: NPY002, as its replay buffer draws
            return np.array([actions.sample() for _ in range(work.num_envs)])
        with torch.no_grad():
            return np.asarray(online(obs).argmax(1))

    def step() -> None:
        nonlocal obs, taken
        action = act()
        following, reward, terminated, truncated, info = envs.step(action)
        successor = following
        ended = terminated | truncated
        if ended.any():
            successor = following.copy()
            for i in np.flatnonzero(ended):
                successor[i] = info["final_obs"][i]
        replay.add(obs, successor, action, reward, terminated, [])
        obs = following
        taken += work.num_envs

    def update() -> None:
        batch = replay.sample(work.batch_size)
        with torch.no_grad():
            value = target(batch.next_observations).max(1).values
            goal = batch.rewards.flatten() + work.gamma * (1 - batch.dones.flatten()) * value
        predicted = online(batch.observations).gather(1, batch.actions).squeeze(1)
        loss = F.mse_loss(predicted, goal)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def take(decisions: int) -> None:
        for _ in range(work.cycles(decisions)):
            learns = taken >= work.learning_starts
            for _ in range(work.cycle // work.num_envs):
                step()
            for _ in range(work.updates_per_cycle if learns else 0):
                update()
            if learns and taken % work.target_update_interval == 0:
                target.load_state_dict(online.state_dict())

    return take


# --- the same network as ours in plain PyTorch, for libraries without it ----- ---------------------------------


class QNetwork(nn.Module):
    """Map raw observations to the values of all actions."""

    def __init__(self, work: Work, observations: gym.Space[Any], actions: gym.spaces.Discrete) -> None:
        super().__init__()
        shape = observations.shape
        assert shape is not None
        self.kind = family(work.env_id)
        if self.kind == "classic":
            sizes = [int(np.prod(shape)), *[work.features] * work.layers]
            hidden: list[nn.Module] = [layer for i, o in pairwise(sizes) for layer in (nn.Linear(i, o), nn.ReLU())]
        else:
            hidden = (nature if self.kind == "atari" else minatar)(shape, work.features)
        self.layers = nn.Sequential(*hidden, nn.Linear(work.features, int(actions.n)))

    def forward(self, obs: NDArray[Any] | Tensor) -> Tensor:
        x = torch.as_tensor(obs).float()
        if self.kind == "atari":
            x = x / 255
        elif self.kind == "minatar":
            x = x.permute(0, 3, 1, 2)
        values: Tensor = self.layers(x)
        return values


class TianshouNetwork(QNetwork):
    """The same network with Tianshou's calling convention."""

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:  # type: ignore[override]
        return super().forward(obs), state


class GridExtractor(BaseFeaturesExtractor):
    """MinAtar's layers for Stable-Baselines3, which passes booleans as floats and adds the last layer."""

    def __init__(self, observation_space: gym.Space[Any], features_dim: int) -> None:
        super().__init__(observation_space, features_dim)
        assert observation_space.shape is not None
        self.layers = nn.Sequential(*minatar(observation_space.shape, features_dim))

    def forward(self, observations: Tensor) -> Tensor:
        features: Tensor = self.layers(observations.permute(0, 3, 1, 2))
        return features


def nature(shape: tuple[int, ...], features: int) -> list[nn.Module]:
    """The convolutions of Mnih et al. (2015) and a dense layer, for 84 x 84 pixels, channels first."""
    return [
        *(nn.Conv2d(shape[0], 32, 8, stride=4), nn.ReLU()),
        *(nn.Conv2d(32, 64, 4, stride=2), nn.ReLU()),
        *(nn.Conv2d(64, 64, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(64 * 7 * 7, features), nn.ReLU()),
    ]


def minatar(shape: tuple[int, ...], features: int) -> list[nn.Module]:
    """The convolution of Young and Tian (2019) and a dense layer; ``shape`` has its channels last."""
    height, width, channels = shape
    flat = 16 * (height - 2) * (width - 2)
    return [nn.Conv2d(channels, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(flat, features), nn.ReLU()]
