"""The comparison agents' heads: their formulas on numbers worked out by hand, and how long an index lasts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bdqn.agents import AGENTS
from bdqn.config.observations import ObservationSpec
from bdqn.config.settings import Training
from bdqn.networks.heads import DropoutHead, HeadShape, NoisyHead, TrainingIndices
from bdqn.qlearning.acting import choose
from bdqn.qlearning.agent import QAgent
from bdqn.replay.batch import Batch
from support.agents import (
    IMAGE,
    QUICK,
    VECTOR,
    build,
    changes,
    draws_over,
    loss_and_gradients,
    move_target,
    play,
    random_batch,
    step_of,
)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def make(name: str, num_envs: int = 1, training: dict[str, Any] | None = None, **settings: Any) -> QAgent:
    """An agent that stands at its first observation."""
    recipe = AGENTS[name]
    choices = recipe.choices(recipe.settings(**settings))
    agent = QAgent(VECTOR, 3, choices, Training(**{**QUICK, **(training or {})}), seed=1, num_envs=num_envs)
    agent.start(np.zeros((num_envs, *VECTOR.shape), np.float32))
    return agent


# --- NoisyNet ----------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_noisy_layer_by_hand() -> None:
    head = NoisyHead(HeadShape((2,), 2), seeded(), sigma0=0.5)
    head.last.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    head.last.bias.copy_(torch.tensor([0.5, -0.5]))
    head.sigma_weights[0].copy_(torch.tensor([[0.1, 0.2], [0.3, 0.4]]))
    head.sigma_biases[0].copy_(torch.tensor([0.5, 0.6]))
    # f(e_in) = (2, -1), f(e_out) = (3, 0.5):
    # weights [[1 + 0.1 * 3 * 2, 2 + 0.2 * 3 * -1], [3 + 0.3 * 0.5 * 2, 4 + 0.4 * 0.5 * -1]] = [[1.6, 1.4], [3.3, 3.8]]
    # biases (0.5 + 0.5 * 3, -0.5 + 0.6 * 0.5) = (2.0, -0.2)
    q = head(torch.tensor([[1.0, -1.0]]), torch.tensor([2.0, -1.0, 3.0, 0.5]))
    torch.testing.assert_close(q, torch.tensor([[1.6 - 1.4 + 2.0, 3.3 - 3.8 - 0.2]]))
    torch.testing.assert_close(head(torch.tensor([[1.0, -1.0]]), None), torch.tensor([[-0.5, -1.5]]))


@torch.no_grad()
def test_noise_goes_through_all_layers_as_explicit_matrices_would() -> None:
    head = NoisyHead(HeadShape((3, 5, 4), 2), seeded(), sigma0=1.0)
    phi = torch.randn(6, 3, generator=seeded())
    rows = head.draw(rng_of(0), 6)
    per_row = head(phi, rows)
    for row in range(6):
        x, rest = phi[row], rows[row]
        for i, mu in enumerate((*head.dense, head.last)):
            e_in, e_out, rest = rest.split([len(x), len(mu.bias), len(rest) - len(x) - len(mu.bias)])
            weight = mu.weight + head.sigma_weights[i] * torch.outer(e_out, e_in)
            x = weight @ x + mu.bias + head.sigma_biases[i] * e_out
            x = x if mu is head.last else x.relu()
        torch.testing.assert_close(per_row[row], x)
        torch.testing.assert_close(head(phi, rows[row])[row], x)  # one draw for all rows


def test_noise_starts_at_sigma0_over_the_root_of_a_layers_inputs() -> None:
    head = NoisyHead(HeadShape((9, 4), 2), seeded(), sigma0=0.5)
    for i, sigma in enumerate((0.5 / 3, 0.5 / 2)):
        torch.testing.assert_close(head.sigma_weights[i].data, torch.full_like(head.sigma_weights[i], sigma))
        torch.testing.assert_close(head.sigma_biases[i].data, torch.full_like(head.sigma_biases[i], sigma))


def test_noise_is_the_signed_root_of_a_gaussian() -> None:
    noise = NoisyHead(HeadShape((3,), 2), seeded(), 0.5).draw(rng_of(7), 4).numpy()
    gaussian = rng_of(7).standard_normal((4, 5), np.float32)
    np.testing.assert_allclose(np.sign(noise) * noise**2, gaussian, rtol=1e-5)


def test_predicting_selecting_and_evaluating_have_noise_of_their_own_and_each_update_too() -> None:
    head, rng = NoisyHead(HeadShape((3,), 2), seeded(), 0.5), rng_of(0)
    drawn = [*head.training_indices(None, rng, 32), *head.training_indices(None, rng, 32)]
    assert len({index.numpy().tobytes() for index in drawn}) == 6
    assert all(index.shape == (5,) for index in drawn)  # the same for the whole batch


def test_the_scale_of_the_noise_is_learned() -> None:
    agent = build("noisy", VECTOR)
    _, gradients = loss_and_gradients(agent, random_batch(VECTOR))
    assert all(gradients[f"head.sigma_weights.{i}"].abs().max() > 0 for i in range(3))


# --- dropout -----------------------------------------------------------------------------------------------------


def test_dropout_leaves_features_out_and_keeps_their_expectation() -> None:
    head = DropoutHead(HeadShape((3, 50), 2), seeded(), rate=0.2)
    masks = head.draw(rng_of(0), 4000)
    assert masks.unique().tolist() == pytest.approx([0.0, 1.25])
    assert masks.mean().item() == pytest.approx(1.0, abs=0.01)
    phi = torch.rand(1, 50, generator=seeded())
    with torch.no_grad():
        by_mask = head(phi.expand(4000, -1), masks)
        torch.testing.assert_close(by_mask[:1], head(phi * masks[0], None))
        torch.testing.assert_close(by_mask.mean(0), head(phi, None)[0], atol=0.02, rtol=0)


def test_every_row_of_an_update_has_three_masks_of_its_own() -> None:
    head = DropoutHead(HeadShape((64,), 2), seeded(), rate=0.5)
    indices = head.training_indices(None, rng_of(0), 16)
    assert len({row.numpy().tobytes() for index in indices for row in index}) == 48


# --- Bootstrapped DQN --------------------------------------------------------------------------------------------


def as_ddqn(agent: QAgent, k: int) -> QAgent:
    """A Double DQN whose online and target network are one member's."""
    ddqn = build("ddqn", agent.spec, agent.training)
    for own, network in ((ddqn.online, agent.online), (ddqn.target, agent.target)):
        own.torso.load_state_dict(network.torso.state_dict())
        for i, layer in enumerate((*own.head.dense, own.head.last)):
            layer.load_state_dict({"weight": network.head.weights[i][k], "bias": network.head.biases[i][k]})
    ddqn.targets.in_sync = False
    return ddqn


def rows_of(batch: Batch, rows: np.ndarray) -> Batch:
    return Batch(batch.obs[rows], batch.action[rows], batch.reward[rows], batch.next_obs[rows], batch.terminal[rows])


def test_members_are_double_dqns_of_their_own_on_the_transitions_that_are_theirs() -> None:
    """Loss: the sum over members. Torso: the mean of their gradients. A member's layers: its own gradient, whole."""
    members, batch = 3, random_batch(IMAGE)
    mask = rng_of(1).random((16, members)) < 0.5
    agent = build("bootstrapped", IMAGE, members=members)
    move_target(agent)
    with torch.no_grad():
        for parameter in agent.target.head.parameters():  # members must differ in whom they select and evaluate by
            parameter.mul_(torch.tensor([1.0, -1.0, 0.5]).view(-1, *[1] * (parameter.ndim - 1)))
    loss, gradients = loss_and_gradients(
        agent, Batch(batch.obs, batch.action, batch.reward, batch.next_obs, batch.terminal, mask=mask)
    )
    total, torso = 0.0, {name: torch.zeros_like(g) for name, g in gradients.items() if name.startswith("torso")}
    assert torso
    for k in range(members):
        ddqn, share = as_ddqn(agent, k), mask[:, k].mean()  # rows that are masked count as zeros in the mean
        own = ddqn.loss(rows_of(batch, mask[:, k])) * share
        own.backward()
        total += own.item()
        for name, parameter in ddqn.online.torso.named_parameters():
            torso[f"torso.{name}"] += parameter.grad / members
        for i, layer in enumerate((*ddqn.online.head.dense, ddqn.online.head.last)):
            torch.testing.assert_close(gradients[f"head.weights.{i}"][k], layer.weight.grad)
            torch.testing.assert_close(gradients[f"head.biases.{i}"][k], layer.bias.grad)
    assert loss == pytest.approx(total)
    for name, gradient in torso.items():
        torch.testing.assert_close(gradients[name], gradient)


@torch.no_grad()
def test_an_index_picks_a_member_and_the_mean_index_their_mean() -> None:
    agent = build("bootstrapped", VECTOR, members=4)
    head, phi = agent.online.head, agent.features(random_batch(VECTOR).obs)
    every = head(phi, head.all_members)
    assert every.shape == (16, 4, 3)
    member = head.draw(rng_of(0), 16)
    assert set(member.tolist()) == {0, 1, 2, 3}
    assert all(torch.equal(head(phi, member)[i], every[i, member[i]]) for i in range(16))
    assert torch.equal(head(phi, member[0]), every[:, member[0]])
    assert torch.equal(head(phi, head.mean_index), every.mean(1))
    assert all(not torch.equal(every[:, 0], every[:, k]) for k in (1, 2, 3))


def test_masks_are_coins_with_the_given_probability_independent_of_each_other() -> None:
    agent = make("bootstrapped", 2, {"learning_starts": 10_000, "buffer_size": 8000}, members=3, mask_probability=0.3)
    play(agent, 6000)
    masks = agent.replay.masks[agent.replay.is_transition].astype(float)
    assert len(masks) == 6000
    np.testing.assert_allclose(masks.mean(0), 0.3, atol=0.025)  # four standard errors
    np.testing.assert_allclose(np.corrcoef(masks.T), np.eye(3), atol=0.06)
    np.testing.assert_allclose(np.corrcoef(masks[1:, 0], masks[:-1, 0])[0, 1], 0, atol=0.06)
    env = agent.replay.masks[:, :3000].reshape(2, -1)
    assert not np.array_equal(env[0], env[1])


def test_without_masks_none_are_kept() -> None:
    agent = make("bootstrapped", mask_probability=1.0)
    assert agent.replay.masks is None
    assert "masks" not in agent.rngs


@torch.no_grad()
def test_members_vote_where_nothing_is_explored() -> None:
    """Three members, one observation: two are for action 1, the mean is for action 2; without action 1, a tie."""
    agent = build("bootstrapped", VECTOR, members=3, evaluation="vote")
    head = agent.online.head
    for parameter in head.parameters():
        parameter.zero_()
    head.biases[-1].copy_(torch.tensor([[0.0, 1.0, 0.5], [0.0, 1.0, 0.5], [5.0, 0.0, 9.0]]))
    obs = random_batch(VECTOR, 1).obs
    view = agent.view(obs)
    assert view.mean.argmax() == 2
    assert view.verdict.argmax() == 1
    assert np.floor(view.verdict).tolist() == [[0, 2, 1]]
    assert choose(agent, view, rng_of(0), greedy=True).tolist() == [1]
    assert agent.view(obs, allowed=np.array([[True, False, True]])).verdict.argmax() == 2  # all three
    head.biases[-1].copy_(torch.tensor([[0.0, 1.0, 0.5], [3.0, 0.0, 0.5], [5.0, 0.0, 9.0]]))
    assert agent.view(obs).verdict.argmax() == 2  # one vote each: the mean decides
    by_mean = build("bootstrapped", VECTOR, members=3)
    assert torch.equal(torch.from_numpy(by_mean.view(obs).verdict), torch.from_numpy(by_mean.view(obs).mean))


# --- a randomised prior ------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(("name", "own"), [("bootstrapped", {"members": 4}), ("bdqn", {})])
@pytest.mark.parametrize("spec", [VECTOR, IMAGE], ids=["vector", "image"])
def test_a_prior_adds_its_scaled_values_and_changes_nothing_else(
    name: str, own: dict[str, Any], spec: ObservationSpec
) -> None:
    plain, with_prior = build(name, spec, **own), build(name, spec, prior_scale=3.0, **own)
    obs = random_batch(spec).obs
    index = plain.online.head.all_members if name == "bootstrapped" else plain.online.head.weights
    difference = with_prior.online.q(with_prior.features(obs), index) - plain.online.q(plain.features(obs), index)
    prior = with_prior.online.prior(torch.as_tensor(obs)).view_as(difference)
    assert prior.abs().max() > 0.1
    torch.testing.assert_close(difference, 3.0 * prior, atol=1e-5, rtol=1e-5)
    if name == "bootstrapped":  # each member has one of its own
        assert all(not torch.equal(prior[:, 0], prior[:, k]) for k in (1, 2, 3))


@pytest.mark.parametrize("name", ["bootstrapped", "bdqn"])
def test_no_training_reaches_a_prior(name: str) -> None:
    agent = make(name, prior_scale=3.0)
    before = {k: v.clone() for k, v in agent.online.state_dict().items() if k.startswith("prior.")}
    play(agent, 60, episode=7)  # updates, copies to the target network, refits
    assert agent.updates == 10
    for network in (agent.online, agent.target):
        after = network.state_dict()
        assert all(torch.equal(after[k], value) for k, value in before.items())
    assert not any(
        k.startswith("prior.")
        for average in agent.optimizer.state().values()
        if isinstance(average, dict)
        for k in average
    )
    biases = [v for k, v in before.items() if "bias" in k]
    assert biases
    assert not any(v.any() for v in biases)


def test_a_priors_layers_keep_the_size_of_what_they_are_given() -> None:
    prior = build("bootstrapped", IMAGE, Training(buffer_size=100, features=512), members=2, prior_scale=1.0)
    weights = {k: v for k, v in prior.online.prior.named_parameters() if v.ndim > 2 and "biases" not in k}
    fans = {"torso.1.weight": 3 * 3 * 2, "head.weights.0": 16 * 4 * 4, "head.weights.1": 512}
    assert weights.keys() == fans.keys()
    for name, fan_in in fans.items():
        assert weights[name].std().item() == pytest.approx((2 / fan_in) ** 0.5, rel=0.1)


# --- LS-DQN ------------------------------------------------------------------------------------------------------


def test_the_solved_layer_is_ridge_regression_around_the_trained_one() -> None:
    agent = make("ls-dqn", ridge=0.7, posterior_update_interval=10_000)
    play(agent, 60, episode=9)
    agent.targets.sync()
    with torch.no_grad():
        agent.target.head.last.weight.mul_(0.9)  # what is copied below
    agent.targets.in_sync = False
    batch = agent.replay.gather(*agent.replay.index())
    y = (
        agent.targets.td_target(batch, TrainingIndices(None, None, None), agent.choices.bootstrap)
        .numpy()
        .astype(np.float64)
    )
    x = np.hstack([agent.features(batch.obs).numpy(), np.ones((len(y), 1))]).astype(np.float64)
    before = {name: value.clone() for name, value in agent.online.state_dict().items()}
    trained = torch.cat([before["head.last.weight"], before["head.last.bias"][:, None]], 1).numpy().astype(np.float64)
    agent.fit_last_layer()
    solved = torch.cat([agent.online.head.last.weight, agent.online.head.last.bias[:, None]], 1).detach().numpy()
    for action in range(3):
        own = batch.action == action
        gram = x[own].T @ x[own] + 0.7 * np.eye(9)
        expected = np.linalg.solve(gram, x[own].T @ y[own] + 0.7 * trained[action])
        np.testing.assert_allclose(solved[action], expected, rtol=1e-4, atol=1e-5)
    assert np.abs(solved - trained).max() > 0.01
    for name, value in agent.online.state_dict().items():
        assert torch.equal(value, before[name]) == (not name.startswith("head.last"))
    assert torch.equal(agent.target.head.last.weight, agent.online.head.last.weight)
    assert torch.equal(agent.target.head.last.bias, agent.online.head.last.bias)


def test_lstd_solves_for_the_greedy_policys_values_on_what_the_buffer_holds() -> None:
    agent = make("ls-dqn", solver="lstd", ridge=0.7, posterior_update_interval=10_000, training={"gamma": 0.8})
    play(agent, 60, episode=9)
    agent.sync()
    batch = agent.replay.gather(*agent.replay.index())
    x, next_x = (
        np.hstack([agent.features(obs).numpy(), np.ones((len(obs), 1))]) for obs in (batch.obs, batch.next_obs)
    )
    last = agent.online.head.last
    trained = torch.cat([last.weight, last.bias[:, None]], 1).detach().numpy().astype(np.float64)
    taken = (next_x @ trained.T).argmax(1)
    system, right = 0.7 * np.eye(27), 0.7 * trained.ravel()
    for i, action in enumerate(batch.action):
        here, there = np.zeros((2, 3, 9))
        here[action], there[taken[i]] = x[i], next_x[i]
        discount = 0.0 if batch.terminal[i] else 0.8
        system += np.outer(here, here.ravel() - discount * there.ravel())
        right += batch.reward[i] * here.ravel()
    agent.fit_last_layer()
    solved = torch.cat([last.weight, last.bias[:, None]], 1).detach().numpy()
    np.testing.assert_allclose(solved.ravel(), np.linalg.solve(system, right), rtol=1e-3, atol=1e-4)
    assert np.abs(solved - trained).max() > 0.01
    assert torch.equal(agent.target.head.last.weight, last.weight)


# --- how long an index lasts -------------------------------------------------------------------------------------


def acting_changes(agent: QAgent, decisions: int, episode: int) -> list[int]:
    return changes([acting for _, acting in draws_over(agent, decisions, episode)])


def test_a_member_acts_for_a_whole_episode() -> None:
    agent = make("bootstrapped", members=1000, training={"learning_starts": 1, "train_freq": 5})
    assert acting_changes(agent, 15, episode=5) == [4, 9, 14]


def test_every_environment_follows_a_member_of_its_own_for_its_own_episode() -> None:
    agent = make("bootstrapped", 4, members=1000)
    before = agent.draws.acting.numpy().copy()
    assert len(set(before.tolist())) == 4
    step = step_of(rng_of(0), 4)
    step.ended[2] = True
    agent.observe(np.zeros(4, np.int64), step)
    assert (agent.draws.acting.numpy() == before).tolist() == [True, True, False, True]


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize(
    ("name", "settings", "lasts"),
    [
        ("dropout", {}, 1),
        ("dropout", {"redraw": "episode"}, 4),
        ("noisy", {}, 1),
        ("bbq", {}, 4),
        ("bbq", {"redraw": "step"}, 1),
    ],
)
def test_masks_and_noise_last_for_a_decision_or_an_episode(
    name: str, settings: dict[str, Any], lasts: int, num_envs: int
) -> None:
    agent = make(name, num_envs, **settings)
    assert acting_changes(agent, 12, episode=4) == list(range(lasts - 1 or 1, 12, lasts))
    assert len({row.numpy().tobytes() for row in agent.draws.acting}) == num_envs
