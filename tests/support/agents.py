"""Agents on steps and batches made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bdqn.agents import AGENTS
from bdqn.config.observations import ObservationSpec
from bdqn.config.settings import Training
from bdqn.envs.interaction import Step
from bdqn.qlearning.agent import QAgent
from bdqn.replay.batch import Batch

ATARI = ObservationSpec((4, 84, 84), np.dtype(np.uint8), stack=4)
VECTOR = ObservationSpec((5,), np.dtype(np.float32))
IMAGE = ObservationSpec((6, 6, 2), np.dtype(np.float32))  # it has a torso to share
QUICK = {"learning_starts": 20, "train_freq": 4, "target_update_interval": 8, "buffer_size": 400, "features": 8}


def build(agent: str, spec: ObservationSpec, training: Training | None = None, **settings: Any) -> QAgent:
    recipe = AGENTS[agent]
    return QAgent(spec, 3, recipe.choices(recipe.settings(**settings)), training or Training(buffer_size=100), seed=4)


def random_batch(spec: ObservationSpec, size: int = 16) -> Batch:
    rng = np.random.default_rng(0)

    def observations() -> np.ndarray:
        values = rng.integers(256, size=(size, *spec.shape)) if spec.stack else rng.normal(size=(size, *spec.shape))
        return values.astype(spec.dtype)

    return Batch(
        observations(),
        rng.integers(3, size=size),
        rng.normal(size=size).astype(np.float32),
        observations(),
        rng.random(size) < 0.3,
    )


def move_target(agent: QAgent, but: str = "nothing") -> None:
    """Move the target away from the online network, else select and evaluate could be swapped unnoticed."""
    with torch.no_grad():
        for name, parameter in agent.target.named_parameters():
            if not name.startswith(but):
                parameter.mul_(1.1)
    agent.targets.in_sync = False


def loss_and_gradients(agent: QAgent, batch: Batch) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss, and its gradient in everything below the last layer."""
    loss = agent.loss(batch)
    loss.backward()
    named = agent.online.named_parameters()
    return loss.item(), {name: p.grad for name, p in named if not name.startswith("head.last")}


def make_agent(num_envs: int = 1, training: dict[str, Any] | None = None, **settings: Any) -> QAgent:
    recipe = AGENTS["bdqn"]
    defaults = {"posterior_update_interval": 16, "posterior_batch_size": 50, "first_refit": "interval"}
    choices = recipe.choices(recipe.settings(**{**defaults, **settings}))
    agent = QAgent(VECTOR, 3, choices, Training(**{**QUICK, **(training or {})}), seed=1, num_envs=num_envs)
    agent.start(np.zeros((num_envs, *VECTOR.shape), np.float32))
    return agent


def step_of(rng: np.random.Generator, num_envs: int, ended: bool = False, truncated: bool = False) -> Step:
    obs = rng.normal(size=(num_envs, *VECTOR.shape)).astype(np.float32)
    flags = np.full(num_envs, ended)
    cut = np.full(num_envs, truncated)
    return Step(obs, rng.normal(size=num_envs), flags & ~cut, cut, flags, obs + 1 if ended else obs, ())


def play(agent: QAgent, decisions: int, episode: int = 0) -> None:
    rng = np.random.default_rng(3)
    for t in range(decisions // agent.num_envs):
        obs = np.ones((agent.num_envs, *VECTOR.shape), np.float32)
        agent.observe(agent.act(obs), step_of(rng, agent.num_envs, ended=bool(episode) and (t + 1) % episode == 0))


def draws_over(agent: QAgent, decisions: int, episode: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """The training draw and the acting draws after each step."""
    seen = []
    rng = np.random.default_rng(5)
    for t in range(decisions):
        agent.observe(
            np.zeros(agent.num_envs, np.int64),
            step_of(rng, agent.num_envs, ended=bool(episode) and (t + 1) % episode == 0),
        )
        seen.append((agent.draws.training.numpy().copy(), agent.draws.acting.numpy().copy()))
    return seen


def changes(values: list[np.ndarray]) -> list[int]:
    return [i for i in range(1, len(values)) if not np.array_equal(values[i], values[i - 1])]
