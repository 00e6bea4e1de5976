"""The paper's claim, executed: Bayesian DQN is Double DQN with another last layer, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bdqn.agent import QAgent
from bdqn.agents import AGENTS
from bdqn.networks import ObservationSpec
from bdqn.replay import Batch
from bdqn.settings import Training

ATARI = ObservationSpec((4, 84, 84), np.dtype(np.uint8), stack=4)
VECTOR = ObservationSpec((5,), np.dtype(np.float32))


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


def loss_and_gradients(agent: QAgent, batch: Batch) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss, and its gradient in everything below the last layer."""
    loss = agent.loss(batch)
    loss.backward()
    named = agent.online.named_parameters()
    return loss.item(), {name: p.grad for name, p in named if not name.startswith("head.last")}


@pytest.mark.parametrize("spec", [VECTOR, ATARI], ids=["vector", "atari"])
@pytest.mark.parametrize("loss_head", ["mean", "draw"])
@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_a_point_mass_posterior_is_double_dqn(spec: ObservationSpec, loss_head: str, loss: str) -> None:
    training = Training(buffer_size=100, loss=loss)
    ddqn = build("ddqn", spec, training)
    bayesian = build("bdqn", spec, training, loss_head=loss_head)
    # Move the target away from the online network, else select and evaluate could be swapped unnoticed.
    for agent in (ddqn, bayesian):
        with torch.no_grad():
            for name, parameter in agent.target.named_parameters():
                if not name.startswith("head.last"):
                    parameter.mul_(1.1)
        agent._in_sync = False
    last = ddqn.online.head.last
    point = torch.cat([last.weight, last.bias[:, None]], dim=1).detach()
    for network in (bayesian.online, bayesian.target):
        network.head.weights.copy_(point)
    bayesian.training_index = point

    batch = random_batch(spec)
    ddqn_loss, ddqn_gradients = loss_and_gradients(ddqn, batch)
    bayesian_loss, bayesian_gradients = loss_and_gradients(bayesian, batch)

    assert bayesian_loss == ddqn_loss
    assert bayesian_gradients.keys() == ddqn_gradients.keys()
    for name, gradient in ddqn_gradients.items():
        assert gradient.abs().max() > 0, name
        assert torch.equal(bayesian_gradients[name], gradient), name


def test_a_draw_changes_the_loss_only_through_the_indices_that_the_settings_name() -> None:
    batch = random_batch(VECTOR)
    under_mean, under_draw = (build("bdqn", VECTOR, loss_head=head) for head in ("mean", "draw"))
    before = under_mean.loss(batch).item()
    assert under_draw.loss(batch).item() == before
    for agent in (under_mean, under_draw):
        agent.training_index = agent.training_index + 1.0  # moves all actions alike: the selection stays
    assert under_mean.loss(batch).item() == pytest.approx(before)
    assert under_draw.loss(batch).item() != pytest.approx(before)


def test_no_gradient_reaches_the_bayesian_last_layer() -> None:
    agent = build("bdqn", VECTOR)
    assert "head.weights" not in dict(agent.online.named_parameters())
    before = agent.online.head.weights.clone()
    agent.loss(random_batch(VECTOR)).backward()
    agent.optimizer.step()
    assert torch.equal(agent.online.head.weights, before)


def test_dqn_differs_from_double_dqn_only_in_who_selects() -> None:
    dqn, ddqn = build("dqn", VECTOR), build("ddqn", VECTOR)
    batch = random_batch(VECTOR)
    assert dqn.loss(batch).item() == ddqn.loss(batch).item()  # online = target: selection is the same
    for agent in (dqn, ddqn):
        with torch.no_grad():
            agent.target.head.last.weight.mul_(-1)
        agent._in_sync = False
    assert dqn.loss(batch).item() != ddqn.loss(batch).item()
