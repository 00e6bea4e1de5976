"""Every agent, and options that change what it computes, on every device: acting, learning, beliefs and resumption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.agents import AGENTS
from bdqn.config.settings import settings_of
from bdqn.learner import Learner
from support.devices import on_each_device
from support.fingerprints import fingerprint

SMALL = {
    "learning_starts": 20,
    "buffer_size": 100,
    "features": 16,
    "target_update_interval": 20,
    "train_freq": 4,
    "batch_size": 16,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "a draw of each kind": {"redraw": "steps", "sample_interval": 7, "acting_sample_interval": 3, "loss_head": "draw"},
    "a second draw": {"evaluate_head": "second-draw", "regression_head": "second-draw"},
    "a frozen prior": {"prior_scale": 1.0},
    "a trained last layer": {"last_layer": "gradient"},
    "around a trained one": {"last_layer": "gradient-prior", "gram_decay": 0.5},
    "rows of updates": {"posterior_data": "minibatches"},
    "updates between refits": {"online_interval": 5},
    "optimism": {"acting": "ucb"},
    "returns over steps": {"n_steps": 3, "optimizer": "rmsprop"},
}
CASES = [*((name, {}) for name in AGENTS), *(("bdqn", options) for options in OPTIONS.values())]


def make(agent: str, options: dict[str, Any], device: str) -> Learner:
    refits = {"posterior_update_interval": 20, "posterior_batch_size": 60}
    known = refits if refits.keys() <= settings_of(AGENTS[agent].settings).keys() else {}
    env = "MinAtar/Breakout-v1" if agent == "dqn-cts" else "CartPole-v1"
    return bdqn.make(agent, env, seed=0, num_envs=2, device=device, **{**SMALL, **known, **options})


def tensors(learner: Learner) -> list[torch.Tensor]:
    agent = learner.agent
    held = [*agent.online.state_dict().values(), *agent.target.state_dict().values()]
    return [*held, *(draw for draw in (agent.draws.training, agent.draws.acting) if draw is not None)]


@on_each_device
@pytest.mark.parametrize(("agent", "options"), CASES, ids=[*AGENTS, *OPTIONS])
def test_it_learns_there_and_is_resumed_exactly(
    agent: str, options: dict[str, Any], device: str, tmp_path: Path
) -> None:
    learner = make(agent, options, device).learn(60)
    assert {tensor.device.type for tensor in tensors(learner)} == {device}
    assert learner.agent.updates == (10 if learner.agent.choices.learns else 0)
    checkpoints = bdqn.Checkpoints(tmp_path)
    checkpoints.save(learner)
    resumed = checkpoints.load(device=device).learner
    assert fingerprint(resumed.learn(20)) == fingerprint(learner.learn(20))
    obs = learner.envs.obs
    q = learner.q_values(obs)
    assert np.isfinite(q).all()
    if learner.agent.online.head.posterior is not None:
        belief = learner.q_posterior(obs)
        assert belief.mean.shape == belief.std.shape == q.shape
        assert (belief.std > 0).all()
