"""The paper's claim, executed: Bayesian DQN is Double DQN with another last layer, and nothing else.

The same claim for the agents that it is compared with: where what they add does nothing, they are Double DQN.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bdqn.bayes.posterior import Moments
from bdqn.config.observations import ObservationSpec
from bdqn.config.settings import Training
from bdqn.envs.interaction import Step
from bdqn.qlearning.agent import QAgent
from support.agents import ATARI, IMAGE, QUICK, VECTOR, build, loss_and_gradients, move_target, random_batch


@pytest.mark.parametrize("spec", [VECTOR, ATARI], ids=["vector", "atari"])
@pytest.mark.parametrize("loss_head", ["mean", "draw"])
@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_a_point_mass_posterior_is_double_dqn(spec: ObservationSpec, loss_head: str, loss: str) -> None:
    training = Training(buffer_size=100, loss=loss)
    ddqn = build("ddqn", spec, training)
    bayesian = build("bdqn", spec, training, loss_head=loss_head)
    for agent in (ddqn, bayesian):
        move_target(agent, but="head.last")
    last = ddqn.online.head.last
    point = torch.cat([last.weight, last.bias[:, None]], dim=1).detach()
    for network in (bayesian.online, bayesian.target):
        network.head.weights.copy_(point)
    bayesian.draws.training = point

    batch = random_batch(spec)
    ddqn_loss, ddqn_gradients = loss_and_gradients(ddqn, batch)
    bayesian_loss, bayesian_gradients = loss_and_gradients(bayesian, batch)

    assert bayesian_loss == ddqn_loss
    assert bayesian_gradients.keys() == ddqn_gradients.keys()
    for name, gradient in ddqn_gradients.items():
        assert gradient.abs().max() > 0, name
        assert torch.equal(bayesian_gradients[name], gradient), name


# What each agent adds, and the value at which that does nothing.
WITHOUT = {
    "boltzmann": {},
    "dropout": {"dropout_rate": 0.0},
    "noisy": {"sigma0": 0.0},
    "bbq": {"sigma0": 0.0, "kl_scale": 0.0},
    "bootstrapped": {"members": 1, "mask_probability": 1.0, "prior_scale": 0.0},
    "ls-dqn": {},
}


def by_layer(agent: QAgent) -> dict[str, torch.Tensor]:
    """Gradients under the names that Double DQN's layers have; of scales nothing, for Double DQN has none."""
    scales = ("sigma", "rhos")
    gradients = {n: p.grad for n, p in agent.online.named_parameters() if not any(scale in n for scale in scales)}
    layers = sum(name.startswith("head.weights.") for name in gradients)
    for i in range(layers):  # members' layers are stacked
        layer = "last" if i == layers - 1 else f"dense.{i}"
        gradients[f"head.{layer}.weight"] = gradients.pop(f"head.weights.{i}")[0]
        gradients[f"head.{layer}.bias"] = gradients.pop(f"head.biases.{i}")[0]
    return gradients


@pytest.mark.parametrize("spec", [VECTOR, ATARI], ids=["vector", "atari"])
@pytest.mark.parametrize("loss", ["huber", "squared"])
@pytest.mark.parametrize("agent", WITHOUT)
def test_without_what_it_adds_an_agent_is_double_dqn(agent: str, loss: str, spec: ObservationSpec) -> None:
    training = Training(buffer_size=100, loss=loss)
    batch = random_batch(spec, 8)
    ddqn, other = build("ddqn", spec, training), build(agent, spec, training, **WITHOUT[agent])
    losses = []
    for each in (ddqn, other):
        move_target(each)
        losses.append(each.loss(batch))
        losses[-1].backward()
    assert losses[0].item() == losses[1].item()
    expected, gradients = by_layer(ddqn), by_layer(other)
    assert gradients.keys() == expected.keys()
    for name, gradient in expected.items():
        assert gradient.abs().max() > 0, name
        assert torch.equal(gradients[name], gradient), name


def test_noisy_with_dqns_target_and_without_noise_is_dqn() -> None:
    batch = random_batch(VECTOR)
    dqn, noisy, double = (
        build("dqn", VECTOR),
        build("noisy", VECTOR, sigma0=0.0, td_target="max"),
        build("ddqn", VECTOR),
    )
    for each in (dqn, noisy, double):
        with torch.no_grad():
            each.target.head.last.weight.mul_(-1)  # the two networks do not agree on the next action
        each.targets.in_sync = False
    losses = [each.loss(batch) for each in (dqn, noisy, double)]
    assert losses[0].item() == losses[1].item() != losses[2].item()
    for loss in losses[:2]:
        loss.backward()
    gradients = by_layer(noisy)
    assert all(torch.equal(gradients[name], gradient) for name, gradient in by_layer(dqn).items())


@pytest.mark.parametrize("spec", [VECTOR, IMAGE], ids=["vector", "image"])
def test_without_spread_bbq_trains_to_double_dqns_weights(spec: ObservationSpec) -> None:
    training = Training(**QUICK)
    ddqn, other = (build(name, spec, training, **WITHOUT.get(name, {})) for name in ("ddqn", "bbq"))
    for each in (ddqn, other):
        rng = np.random.default_rng(2)
        each.start(np.zeros((1, *spec.shape), spec.dtype))
        for _ in range(200):
            obs = rng.normal(size=(1, *spec.shape)).astype(spec.dtype)
            ended = rng.random(1) < 0.1
            step = Step(obs, rng.normal(size=1), ended, np.zeros(1, np.bool_), ended, obs, ())
            each.observe(rng.integers(3, size=1), step)
        assert each.updates == 45
    trained = other.online.state_dict()
    for name, weight in ddqn.online.state_dict().items():
        assert float((trained[name] - weight).abs().max()) == 0.0, name


@pytest.mark.parametrize(
    ("agent", "settings"),
    [("boltzmann", {"initial_temperature": 0.0, "final_temperature": 0.0}), ("ucb", {"ucb_scale": 0.0})],
)
def test_without_exploration_an_agent_acts_greedily(agent: str, settings: dict[str, float]) -> None:
    quiet, loud = (build(agent, VECTOR, Training(buffer_size=100, learning_starts=1), **own) for own in (settings, {}))
    obs = random_batch(VECTOR, 400).obs
    rng = np.random.default_rng(1)
    for each in (quiet, loud):
        each.steps = 1
        if agent == "ucb":  # the third action is the least known
            moments = Moments.zero(each.online.head.dim, (3,))
            x = each.online.head.regressors(each.features(obs))
            moments.add_by_action(x, rng.choice(3, 400, p=[0.6, 0.39, 0.01]), rng.normal(size=400))
            each.online.head.fit(moments, None, rng)
    for each, is_greedy in ((quiet, True), (loud, False)):
        assert (each.act(obs) == each.view(obs).mean.argmax(1)).all() == is_greedy


def test_a_draw_changes_the_loss_only_through_the_indices_that_the_settings_name() -> None:
    batch = random_batch(VECTOR)
    under_mean, under_draw = (build("bdqn", VECTOR, loss_head=head) for head in ("mean", "draw"))
    before = under_mean.loss(batch).item()
    assert under_draw.loss(batch).item() == before
    for agent in (under_mean, under_draw):
        agent.draws.training = agent.draws.training + 1.0  # moves all actions alike: the selection stays
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
        agent.targets.in_sync = False
    assert dqn.loss(batch).item() != ddqn.loss(batch).item()
