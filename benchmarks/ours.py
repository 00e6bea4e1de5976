"""Our agents on the common workload, and the bare parts of their training."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import bdqn
from bdqn.config.settings import SettingError
from bdqn.envs import family
from bdqn.learner import Learner
from bdqn.networks.precision import try_bfloat16
from bdqn.networks.torsos import Chain
from bdqn.qlearning.agent import QAgent
from work import EPSILON, Contestant, Work


def learner(work: Work, agent: str, **settings: Any) -> Learner:
    """One of our agents, configured for this workload."""
    explore = {"exploration_initial_eps": EPSILON, "exploration_final_eps": EPSILON}
    own = {"ddqn": explore, "dqn": explore, "bdqn": {"first_refit": "start", "posterior_update_interval": 10**9}}
    layers = {"mlp_layers": work.layers} if family(work.env_id) == "classic" else {}
    return bdqn.make(
        agent,
        work.env_id,
        num_envs=work.num_envs,
        optimizer="adam",
        features=work.features,
        batch_size=work.batch_size,
        train_freq=work.decisions_per_update,
        learning_starts=work.learning_starts,
        buffer_size=work.buffer_size,
        learning_rate=work.learning_rate,
        gamma=work.gamma,
        n_steps=1,  # as in the other libraries
        target_update_interval=work.target_update_interval,
        **layers,
        **own[agent],
        **settings,
    )


def bfloat16_is_faster() -> bool:
    """Whether bfloat16 is worth measuring: not if torch must use older instructions."""
    try:
        trial = try_bfloat16()
    except SettingError:
        return False
    return trial.isa is None and trial.slowdown < 1


def contestant(work: Work, agent: str, **settings: Any) -> Contestant:
    """One of our agents as a contestant. The posterior is fitted once, when learning starts."""
    trained = learner(work, agent, **settings)

    def take(decisions: int) -> None:
        trained.learn(work.cycles(decisions) * work.cycle)

    return take


def bare_parts(trained: Learner, work: Work) -> dict[str, tuple[Callable[[], object], float]]:
    """The minimum for a decision of Double DQN in plain PyTorch: each part, and how often a decision needs it.

    A network of the same layers and memory layout, one batch that is a tensor already, no replay buffer, no targets
    but the bootstrap itself, no bookkeeping.
    """
    agent = trained.agent
    batch = agent.replay.sample(work.batch_size, np.random.default_rng(0))
    obs, next_obs, acting_obs = (torch.from_numpy(array) for array in (batch.obs, batch.next_obs, trained.envs.obs))
    action = torch.from_numpy(batch.action)[:, None]
    reward = torch.from_numpy(batch.reward)
    online, target = plain(agent), plain(agent)
    optimizer = torch.optim.Adam(online.parameters(), lr=work.learning_rate, fused=True)

    def update() -> None:
        with torch.no_grad():
            best = online.forward(next_obs).argmax(1, keepdim=True)
            goal = reward + work.gamma * target.forward(next_obs).gather(1, best).squeeze(1)
        loss = nn.functional.smooth_l1_loss(online.forward(obs).gather(1, action).squeeze(1), goal)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def act() -> Tensor:
        with torch.no_grad():
            return online.forward(acting_obs).argmax(1)  # type: ignore[no-any-return]

    actions = np.zeros(work.num_envs, np.int64)
    return {
        "update": (update, 1 / work.decisions_per_update),
        "acting forward": (act, 1 / work.num_envs),
        "environments": (lambda: trained.envs.step(actions), 1 / work.num_envs),
    }


def plain(agent: QAgent) -> Chain:
    """A copy of the layers with a linear last layer."""
    network = copy.deepcopy(agent.online).requires_grad_(True)
    assert isinstance(network.torso, Chain)
    return Chain(*network.torso, *network.head.dense, nn.Linear(network.head.shape.num_features, agent.num_actions))
