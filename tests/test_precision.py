"""bfloat16: faster features where the processor has it, close to float32's everywhere."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.learner import Learner
from bdqn.qnetwork import warn_if_bfloat16_is_slow
from bdqn.replay import Batch

pytestmark = pytest.mark.filterwarnings("ignore:precision is bfloat16")


def recorded(env: str, agent: str, **settings: Any) -> Learner:
    """A learner that has played at random, and trained a little."""
    return bdqn.make(agent, env, learning_starts=300, buffer_size=1_000, seed=1, **settings).learn(340)


def twin(learner: Learner) -> Learner:
    """The same agent in bfloat16."""
    assert isinstance(learner.env_source, str)
    other = bdqn.make(
        learner.configuration.agent, learner.env_source, learning_starts=300, buffer_size=1_000, precision="bfloat16"
    )
    other.agent.load_state(learner.agent.state())
    return other


def gradient(learner: Learner, batch: Batch) -> torch.Tensor:
    agent = learner.agent
    agent.optimizer.clear()
    agent.loss(batch).backward()
    return torch.cat([p.grad.flatten() for p in agent.online.parameters() if p.grad is not None])


@pytest.mark.parametrize("agent", ["ddqn", "bdqn"])
def test_values_and_gradients_on_a_recorded_pong_replay(agent: str) -> None:
    """bfloat16 has eight bits, a rounding of 0.4 %: Q is within 2 % of its size, gradients are within 5 % of theirs."""
    single = recorded("ALE/Pong-v5", agent)
    half = twin(single)
    batch = single.agent.replay.sample(64, np.random.default_rng(0))
    expected, found = single.agent.view(batch.obs).mean, half.agent.view(batch.obs).mean
    assert expected.dtype == found.dtype == np.float32
    assert 0 < np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
    ours, theirs = gradient(half, batch), gradient(single, batch)
    assert ours.dtype == torch.float32
    assert 0 < (ours - theirs).norm() < 0.05 * theirs.norm()
    assert torch.cosine_similarity(ours, theirs, dim=0) > 0.999


@pytest.mark.parametrize("env", ["CartPole-v1", "MinAtar/Breakout-v1"])
def test_it_trains_and_its_weights_stay_in_float32(env: str) -> None:
    learner = recorded(env, "bdqn", precision="bfloat16")
    agent = learner.agent
    assert {tensor.dtype for tensor in agent.online.state_dict().values()} == {torch.float32}
    assert agent.updates > 0
    assert np.isfinite(learner.q_posterior(learner.envs.obs).std).all()


def test_where_it_is_imitated_a_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cpu")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    with pytest.warns(UserWarning, match="precision is bfloat16, which this processor has to imitate"):
        warn_if_bfloat16_is_slow(device)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_bfloat16_is_slow(device)
