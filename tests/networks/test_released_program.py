"""The slips of the authors' released program: each one by hand, or against torch's own function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from bdqn.agents import AGENTS
from bdqn.config.resolve import configure
from bdqn.config.settings import Training
from bdqn.networks.normalisation import NormalisedConvolution, batch_statistics
from bdqn.qlearning.agent import QAgent
from support.agents import ATARI, IMAGE, QUICK, VECTOR, build, random_batch
from support.fingerprints import fingerprint
from support.small import small

NORMALISED = Training(buffer_size=100, batch_norm=True)


# --- batch normalisation -----------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_normalised_convolution_by_hand() -> None:
    layer = NormalisedConvolution(1, 1, 1)
    layer.weight.fill_(2.0)
    layer.bias.fill_(1.0)
    layer.scale.fill_(3.0)
    layer.shift.fill_(0.5)
    x = torch.tensor([0.0, 1.0, 2.0, 5.0]).view(4, 1, 1, 1)  # to 1, 3, 5, 11: mean 5, variance 14
    with batch_statistics(nn.Sequential(layer)):
        y = layer(x).flatten()
    expected = 3.0 * torch.tensor([-4.0, -2.0, 0.0, 6.0]) / math.sqrt(14 + 1e-5) + 0.5
    torch.testing.assert_close(y, expected.clamp_min(0))
    # Running: a tenth of what it was (0 and 1), nine tenths of this minibatch; its variance without bias is 56 / 3.
    torch.testing.assert_close(layer.running_mean, torch.tensor([0.9 * 5]))
    torch.testing.assert_close(layer.running_var, torch.tensor([0.1 + 0.9 * 56 / 3]))
    before = layer.running_mean.clone()
    y = layer(x[:1]).flatten()  # a single screen, by running statistics
    torch.testing.assert_close(y, (3.0 * torch.tensor([1 - 4.5]) / math.sqrt(16.9 + 1e-5) + 0.5).clamp_min(0))
    assert torch.equal(layer.running_mean, before)


def test_an_update_normalises_by_minibatch_as_torchs_own_layer_does() -> None:
    agent = build("ddqn", IMAGE, NORMALISED)
    convolution = agent.online.torso[1]
    own = nn.Sequential(nn.Conv2d(2, 16, 3), nn.BatchNorm2d(16, momentum=0.9), nn.ReLU())
    own[0].load_state_dict({"weight": convolution.weight, "bias": convolution.bias})
    batch = random_batch(IMAGE)
    agent.loss(batch)  # the networks are equal: the online one saw the observations only
    screens = agent.online.torso[0](torch.from_numpy(batch.obs))
    with batch_statistics(agent.online):
        torch.testing.assert_close(convolution(screens), own(screens))
    torch.testing.assert_close(convolution.running_mean, 1.1 * own[1].running_mean)  # after two passes: 0.99 of 0.9
    target, next_screens = agent.target.torso[1], agent.online.torso[0](torch.from_numpy(batch.next_obs))
    own[1].reset_running_stats()
    own(next_screens)
    torch.testing.assert_close(target.running_mean, own[1].running_mean)  # the target network's follow, too
    torch.testing.assert_close(target.running_var, own[1].running_var)


def test_acting_and_fits_use_running_statistics_and_leave_them() -> None:
    agent = build("bdqn", IMAGE, NORMALISED)
    agent.loss(random_batch(IMAGE))
    before = {name: value.clone() for name, value in agent.online.state_dict().items() if "running" in name}
    obs = random_batch(IMAGE).obs
    alone = torch.cat([agent.features(row[None]) for row in obs])
    torch.testing.assert_close(agent.features(obs), alone)  # whoever else is in the batch
    assert len(before) == 2
    assert all(torch.equal(agent.online.state_dict()[name], value) for name, value in before.items())


def test_scales_and_shifts_are_trained_and_copied_to_the_target_with_the_statistics() -> None:
    agent = build("ddqn", ATARI, NORMALISED)
    agent.loss(random_batch(ATARI, 4)).backward()
    for layer in agent.online.torso[1:4]:
        assert layer.scale.grad.abs().max() > 0
        assert layer.shift.grad.abs().max() > 0
    agent.sync()
    online, target = agent.online.state_dict(), agent.target.state_dict()
    assert all(torch.equal(online[name], target[name]) for name in online)
    assert sum("running" in name for name in target) == 6


def test_vectors_have_no_convolution_to_normalise() -> None:
    names = [
        list(build("ddqn", VECTOR, training).online.state_dict())
        for training in (NORMALISED, Training(buffer_size=100))
    ]
    assert names[0] == names[1]


# --- initialisation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["ddqn", "bdqn", "bootstrapped", "noisy"])
def test_weights_start_normal_and_biases_at_zero(agent: str) -> None:
    network = build(agent, ATARI, Training(buffer_size=100, features=512, initialisation="normal")).online
    for name, weight in network.named_parameters():
        if "bias" in name and "sigma" not in name:
            assert not weight.any(), name
        elif "sigma" not in name and weight.numel() > 1000:
            assert weight.std().item() == pytest.approx(0.02, rel=0.05), name
            assert abs(weight.mean().item()) < 0.002, name
    if agent == "bdqn":
        weights = network.head.weights[:, :512]
        assert weights.std().item() == pytest.approx(0.01, rel=0.1)
        np.testing.assert_array_equal(network.head.posterior.mean, network.head.weights.double())


# --- the baselines' ReLU -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["ddqn", "dqn"])
@torch.no_grad()
def test_a_relu_at_the_end_by_hand(agent: str) -> None:
    built = build(agent, VECTOR, Training(buffer_size=100, features=2, mlp_layers=1), relu_q=True)
    built.online.head.last.weight.copy_(torch.tensor([[1.0, 2.0], [-1.0, 0.0], [0.5, -0.5]]))
    built.online.head.last.bias.copy_(torch.tensor([0.0, 0.5, -0.25]))
    q = built.online.q(torch.tensor([[1.0, 1.0], [0.0, 0.25]]), None)
    assert q.tolist() == [[3.0, 0.0, 0.0], [0.5, 0.5, 0.0]]


def test_negative_values_get_no_gradient_and_stay_zero() -> None:
    agent = build("ddqn", VECTOR, relu_q=True)
    with torch.no_grad():
        agent.online.head.last.bias.fill_(-100.0)
    agent.loss(random_batch(VECTOR)).backward()
    assert all(not p.grad.any() for p in agent.online.parameters())


# --- all of it ---------------------------------------------------------------------------------------------------


def test_preset_reference_code_has_every_slip_and_no_other_preset_has_one() -> None:
    for preset in ("default", "paper", "reference-code"):
        for agent in ("bdqn", "ddqn", "dqn"):
            configuration = configure(agent, "atari", preset)
            values, protocol = configuration.values, configuration.atari.resolve()
            slips = [values["batch_norm"], values["initialisation"] == "normal", protocol.rgb_mean, protocol.bilinear]
            slips += [values["relu_q"]] if "relu_q" in values else []
            assert slips == [preset == "reference-code"] * len(slips), (preset, agent)
    assert "relu_q" not in configure("bdqn", "atari", "reference-code").values


SLIPS: dict[str, Any] = {"batch_norm": True, "initialisation": "normal"}


@pytest.mark.parametrize(("agent", "own"), [("ddqn", {"relu_q": True}), ("bdqn", {})])
def test_with_slips_a_run_is_reproduced_and_differs_from_one_without(agent: str, own: dict[str, Any]) -> None:
    slipped, again, sound = (
        fingerprint(small(agent, "MinAtar/Breakout-v1", 2, **settings).learn(120))
        for settings in ({**SLIPS, **own}, {**SLIPS, **own}, {})
    )
    assert slipped == again
    assert slipped != sound


def test_every_agent_can_have_them() -> None:
    for name, recipe in AGENTS.items():
        agent = QAgent(IMAGE, 3, recipe.choices(recipe.settings()), Training(**QUICK, **SLIPS), seed=1)
        assert isinstance(agent.online.torso[1], NormalisedConvolution), name
