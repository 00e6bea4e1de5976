"""Options of the Bayesian head beyond the paper, and n-step targets: what each of them changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.agents import AGENTS
from bdqn.bayes.noise import Fixed
from bdqn.bayes.posterior import Moments, Prior
from bdqn.config.observations import ObservationSpec
from bdqn.config.settings import Training
from bdqn.networks.heads import (
    BayesianHead,
    HeadShape,
    Roles,
    TrainedMeanHead,
    TrainedPriorMeanHead,
    TrainingIndices,
)
from bdqn.qlearning.agent import QAgent
from bdqn.qlearning.targets import double_q
from bdqn.replay.batch import Batch
from support.agents import VECTOR, build, loss_and_gradients, make_agent, play, random_batch
from support.probes import MatchingAction

FIXED = {"noise": "fixed", "noise_var": 0.5, "prior_var": 2.0, "bias_feature": False}


def head_of(actions: int, kind: type[BayesianHead] = BayesianHead, **roles: Any) -> BayesianHead:
    """One feature, a prior N(0, 1), noise of variance 1."""
    generator, prior = torch.Generator().manual_seed(0), Prior(1.0, Fixed(1.0))
    return kind(HeadShape((1,), actions), generator, prior=prior, roles=Roles(**roles), bias=False)


def dense_fit(gram: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """The posterior mean under FIXED, by its textbook formula."""
    return np.linalg.solve(gram / 0.5 + np.eye(len(cross)) / 2.0, cross / 0.5)


# --- n-step targets ----------------------------------------------------------------------------------------------


def test_an_n_step_target_sums_clipped_rewards_and_discounts_by_the_steps_taken() -> None:
    agent = build("ddqn", VECTOR, Training(buffer_size=100, gamma=0.5, reward_clip=1.0, n_steps=3))
    obs = random_batch(VECTOR, 4).obs
    rewards = np.array([[3.0, -4.0, 0.5], [0.25, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -8.0]], np.float32)
    terminal, steps = np.array([False, False, True, True]), np.array([3, 2, 1, 3])
    batch = Batch(obs, np.zeros(4, np.int64), rewards, obs, terminal, steps)
    target = agent.targets.td_target(batch, TrainingIndices(None, None, None), double_q).numpy()
    q = agent.view(obs).mean.max(1)  # online = target
    expected = [1 - 0.5 + 0.125 + q[0] / 8, 0.25 + 0.5 + q[1] / 4, 1.0, -0.25]
    np.testing.assert_allclose(target, expected, rtol=1e-6)
    assert target.dtype == np.float32


def test_a_one_step_sum_is_the_target_without_it() -> None:
    agent, batch = build("ddqn", VECTOR), random_batch(VECTOR)
    summed = Batch(
        batch.obs, batch.action, batch.reward[:, None], batch.next_obs, batch.terminal, np.ones(16, np.int64)
    )
    assert agent.loss(summed).item() == agent.loss(batch).item()


# --- who evaluates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("evaluate_head", "bias"), [("mean", 0.0), ("draw", 1.539), ("second-draw", 0.0)])
@torch.no_grad()
def test_only_the_draw_that_selects_overrates_what_it_selected(evaluate_head: str, bias: float) -> None:
    """Ten actions that are worth N(0, 1): the expected maximum of ten such numbers is 1.539."""
    head, rng, phi = head_of(10, evaluate=evaluate_head), np.random.default_rng(0), torch.ones(1, 1)
    head.fit(Moments.zero(1, (10,)), None, rng)
    values = []
    for draw in head.draw(rng, 3000):
        indices = head.training_indices(draw, rng, 1)
        values.append(double_q(lambda i=indices: head(phi, i.select), lambda i=indices: head(phi, i.evaluate)).item())
    assert np.mean(values) == pytest.approx(bias, abs=0.08)
    assert (np.std(values) > 0.5) == (evaluate_head != "mean")  # it still carries the uncertainty


def test_a_second_draw_is_new_at_every_update_and_not_the_draw_that_selects() -> None:
    head, rng = head_of(2, evaluate="second-draw"), np.random.default_rng(0)
    head.fit(Moments.zero(1, (2,)), None, rng)
    draw = head.draw(rng, 1)[0]
    first, second = (head.training_indices(draw, rng, 8) for _ in range(2))
    assert first.select is draw
    assert len({index.numpy().tobytes() for index in (draw, head.weights, first.evaluate, second.evaluate)}) == 4


@pytest.mark.parametrize("regression_head", ["mean", "draw"])
def test_a_refit_values_the_next_action_by_the_weights_that_are_named(regression_head: str) -> None:
    agent = make_agent(regression_head=regression_head, first_refit="start", **FIXED)
    play(agent, 35, episode=9)
    draw, mean = agent.draws.training.clone(), agent.online.head.weights.clone()
    batch = agent.replay.gather(*agent.replay.index())
    evaluate = {"mean": mean, "draw": draw}[regression_head]
    y = agent.targets.td_target(batch, TrainingIndices(None, draw, evaluate), double_q).numpy()
    x = agent.features(batch.obs).numpy().astype(np.float64)
    agent.fit_last_layer()
    for action in range(3):
        rows = batch.action == action
        mean = dense_fit(x[rows].T @ x[rows], x[rows].T @ y[rows])
        np.testing.assert_allclose(agent.online.head.posterior.mean[action], mean, rtol=1e-6, atol=1e-9)


def chain(regression_head: str, visits: tuple[int, int]) -> QAgent:
    """s1 -> s2 -> end, one action, a feature per state; how often each was seen. Discount 0.9, noise and prior 1."""
    recipe = AGENTS["bdqn"]
    own = {"noise": "fixed", "noise_var": 1.0, "prior_var": 1.0, "bias_feature": False}
    choices = recipe.choices(recipe.settings(regression_head=regression_head, **own))
    spec = ObservationSpec((2,), np.dtype(np.float32))
    training = Training(gamma=0.9, learning_starts=1, buffer_size=1000)
    agent = QAgent(spec, 1, choices, training, seed=2, network=torch.nn.Identity())
    first, second = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 1.0]], np.float32)
    action, yes, no = np.zeros(1, np.int64), np.ones(1, np.bool_), np.zeros(1, np.bool_)
    agent.start(first)
    for visit in range(visits[0]):
        on = np.array([visit < visits[1]])  # else it is cut at s2
        agent.replay.add(action, np.zeros(1), second, no, ~on, second if on else first)
        if on:
            agent.replay.add(action, np.ones(1), second, yes, yes, first)
    agent.steps = 1
    return agent


@pytest.mark.parametrize(
    ("regression_head", "carries"), [("mean", False), ("draw", True), ("second-draw", True)], ids=str
)
def test_uncertainty_travels_back_along_a_chain_only_in_draws(regression_head: str, carries: bool) -> None:
    """s1 is well known (50 visits), what follows it is not (2): is Q(s1) held to be uncertain?"""
    n1, n2 = 50, 2
    agent = chain(regression_head, (n1, n2))
    agent.fit_last_layer()
    draws = []
    for _ in range(500):
        agent.fit_last_layer()
        draws.append(agent.draws.training.numpy().copy()[0])
    q1, q2 = np.array(draws).T
    # With noise and prior variance 1, n visits leave a variance of 1 / (n + 1), and n / (n + 1) of their targets.
    of_s2 = 1 / (n2 + 1)
    own = 1 / (n1 + 1)
    carried = (0.9 * n1 / (n1 + 1)) ** 2 * of_s2
    assert q2.var() == pytest.approx(of_s2, rel=0.25)  # four standard errors
    assert q1.var() == pytest.approx(own + carried if carries else own, rel=0.25)
    assert q1.mean() == pytest.approx(0.9 * n1 / (n1 + 1) * n2 / (n2 + 1), abs=0.1)


# --- a last layer that gradients train ---------------------------------------------------------------------------


def test_where_an_action_has_no_data_it_falls_back_to_the_prior_mean_that_is_set() -> None:
    moments = Moments.zero(1, (2,))
    moments.add_by_action(np.ones((4, 1)), np.zeros(4, np.int64), np.full(4, 10.0))  # action 1 was never taken
    kinds = {"regression": BayesianHead, "gradient-prior": TrainedPriorMeanHead, "gradient": TrainedMeanHead}
    heads = {name: head_of(2, kind) for name, kind in kinds.items()}
    for name, head in heads.items():
        if name != "regression":
            head.last.weight.data.copy_(torch.tensor([[3.0], [-2.0]]))
        head.fit(moments, None, np.random.default_rng(0))
    # 4 targets of 10, noise and prior variance 1: (sum of targets + prior mean) / (4 + 1)
    np.testing.assert_allclose(heads["regression"].posterior.mean, [[8.0], [0.0]])
    np.testing.assert_allclose(heads["gradient-prior"].posterior.mean, [[8.6], [-2.0]])
    np.testing.assert_allclose(heads["gradient"].posterior.mean, [[3.0], [-2.0]])
    for head in heads.values():
        np.testing.assert_allclose(head.posterior.std([[1.0]]), [[5**-0.5], [1.0]])
        np.testing.assert_allclose(head.weights, head.posterior.mean, rtol=1e-6)


@pytest.mark.parametrize("last_layer", ["gradient-prior", "gradient"])
def test_gradients_train_the_last_layer_and_the_loss_is_its(last_layer: str) -> None:
    agent = build("bdqn", VECTOR, last_layer=last_layer)
    ddqn = build("ddqn", VECTOR)
    batch = random_batch(VECTOR)
    # Before any fit the mean is the layer as it was initialised: Double DQN, in the layer itself too.
    (loss, gradients), (ddqn_loss, ddqn_gradients) = (loss_and_gradients(each, batch) for each in (agent, ddqn))
    assert loss == ddqn_loss
    assert all(torch.equal(gradients[name], ddqn_gradients[name]) for name in ddqn_gradients)
    torch.testing.assert_close(agent.online.head.last.weight.grad, ddqn.online.head.last.weight.grad)
    head = agent.online.head
    before = head.weights.clone()
    phi = torch.rand(2, head.num_regressors, generator=torch.Generator().manual_seed(0))
    agent.optimizer.step()
    trained = head.last(phi)
    assert not torch.equal(head.last.weight, before[:, :-1])
    assert torch.equal(head.weights, before)  # the regression waits for the next refit
    draw = before + 0.5
    q, of_draw = head.forward(phi, head.mean_index), head.forward(phi, draw)
    shift = 0.5 * (phi.sum(1, keepdim=True) + 1)
    if last_layer == "gradient":  # the mean is the layer as it is now, and draws are as far from it as they were
        torch.testing.assert_close(q, trained)
        torch.testing.assert_close(of_draw, trained + shift)
        np.testing.assert_allclose(head.belief_at(phi).mean, trained.detach(), rtol=1e-5, atol=1e-6)
    else:
        assert not torch.allclose(q, trained)
        torch.testing.assert_close(of_draw, q + shift)


def test_without_draws_a_posterior_around_the_trained_layer_is_double_dqn_throughout() -> None:
    """Refits, target updates and all: only what the draws add would be another agent."""
    quick = {"learning_starts": 100, "buffer_size": 500, "features": 16, "target_update_interval": 70}
    ddqn = bdqn.make("ddqn", "CartPole-v1", **quick).learn(700)
    refits = {"posterior_update_interval": 90, "acting": "epsilon-greedy", "last_layer": "gradient"}
    learner = bdqn.make("bdqn", "CartPole-v1", **quick, **refits).learn(700)
    assert learner.agent.online.head.fitted
    obs = learner.envs.obs
    assert np.array_equal(obs, ddqn.envs.obs)
    assert np.array_equal(learner.q_values(obs), ddqn.q_values(obs))
    np.testing.assert_allclose(learner.q_posterior(obs).mean, ddqn.q_values(obs), rtol=1e-4)


# --- what the regression is fitted to ----------------------------------------------------------------------------


def test_past_data_decay_from_fit_to_fit() -> None:
    agent = make_agent(gram_decay=0.5, posterior_update_interval=10_000, posterior_batch_size=1000, **FIXED)
    fitted: list[Moments] = []
    for decisions in (30, 25, 20):
        play(agent, decisions, episode=1)  # every decision ends its episode: targets are rewards
        batch = agent.replay.gather(*agent.replay.index())
        x, now = agent.features(batch.obs).numpy(), Moments.zero(8, (3,))
        now.add_by_action(x, batch.action, batch.reward)
        fitted = [*[past.scaled(0.5) for past in fitted], now]
        agent.fit_last_layer()
        for action in range(3):
            gram = sum(moments.gram[action] for moments in fitted)
            cross = sum(moments.cross[action] for moments in fitted)
            mean = dense_fit(gram, cross)
            np.testing.assert_allclose(agent.online.head.posterior.mean[action], mean, rtol=1e-5, atol=1e-8)
    assert sum(moments.count.sum() for moments in fitted) == pytest.approx(30 / 4 + 55 / 2 + 75)
    assert agent.metrics["posterior/samples_per_action"] == pytest.approx(sum(m.count for m in fitted).min())


def test_minibatches_are_the_data_and_cost_no_pass_but_one_for_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make_agent(
        training={"learning_rate": 0.0, "target_update_interval": 10_000},  # so that all can be computed again
        posterior_data="minibatches",
        posterior_update_interval=10_000,
        **FIXED,
    )
    batches: list[Batch] = []
    sample = agent.replay.sample
    monkeypatch.setattr(agent.replay, "sample", lambda *a: batches.append(sample(*a)) or batches[-1])
    index = agent.online.head.weights.clone()
    play(agent, 60, episode=9)
    assert len(batches) == agent.updates == 10
    expected = Moments.zero(8, (3,))
    for batch in batches:
        y = agent.targets.td_target(batch, TrainingIndices(None, index, index), double_q).numpy()
        expected.add_by_action(agent.features(batch.obs).numpy(), batch.action, y)
    rows, transitions = expected.count.sum(), len(agent.replay)
    assert rows == 320
    expected = expected.scaled(transitions * (1 - np.exp(-rows / transitions)) / rows)
    passes: list[int] = []
    for network in (agent.online, agent.target):
        features = network.features
        monkeypatch.setattr(network, "features", lambda obs, f=features: passes.append(len(obs)) or f(obs))
    agent.fit_last_layer()
    assert passes == [256]
    for action in range(3):
        mean = dense_fit(expected.gram[action], expected.cross[action])
        np.testing.assert_allclose(agent.online.head.posterior.mean[action], mean, rtol=1e-5, atol=1e-8)

    assert not agent.last_layer.collected.count.any()  # forgotten


# --- a randomised prior ------------------------------------------------------------------------------------------


def test_the_regression_explains_what_a_prior_leaves() -> None:
    agent = make_agent(prior_scale=2.0, first_refit="start", **FIXED)
    play(agent, 35, episode=9)
    draw, mean = agent.draws.training.clone(), agent.online.head.weights.clone()
    batch = agent.replay.gather(*agent.replay.index())
    y = agent.targets.td_target(batch, TrainingIndices(None, draw, mean), double_q).numpy()
    phi = agent.features(batch.obs).numpy().astype(np.float64)
    x, prior = phi[:, :8], 2.0 * phi[:, 8:]
    agent.fit_last_layer()
    for action in range(3):
        rows = batch.action == action
        left = y[rows] - prior[rows, action]
        mean = dense_fit(x[rows].T @ x[rows], x[rows].T @ left)
        np.testing.assert_allclose(agent.online.head.posterior.mean[action], mean, rtol=1e-5)
    far = 50 * np.random.default_rng(5).normal(size=(1, *VECTOR.shape)).astype(np.float32)  # nothing like it was seen
    without = agent.online.head.posterior.mean @ agent.features(far).numpy()[0, :8]
    assert np.abs(agent.view(far).mean[0] - without).min() > 1
    assert agent.metrics["train/feature_norm"] == pytest.approx(np.linalg.norm(x, axis=1)[-256:].mean(), rel=1e-4)


def test_what_is_said_of_the_posterior_includes_the_prior() -> None:
    small = {"learning_starts": 50, "features": 8, "posterior_update_interval": 50, "buffer_size": 500}
    learner = bdqn.make("bdqn", MatchingAction, prior_scale=5.0, **small).learn(120)
    obs = [[1.0, 0.0], [-1.0, 0.0]]
    np.testing.assert_allclose(learner.q_posterior(obs).mean, learner.q_values(obs), rtol=1e-4)
    drawn = np.array([learner.predict(obs, deterministic=False)[0] for _ in range(400)])
    np.testing.assert_allclose((drawn == 1).mean(0), learner.optimal_action_probabilities(obs)[:, 1], atol=0.12)


def test_a_transition_that_updates_sampled_often_counts_once() -> None:
    """Sampled eight times each, as in the paper's settings at the start, data would seem eight times as many."""
    agent = make_agent(
        training={"learning_rate": 0.0, "target_update_interval": 10_000, "train_freq": 1, "batch_size": 32},
        posterior_data="minibatches",
        posterior_update_interval=10_000,
        **FIXED,
    )
    play(agent, 100, episode=9)
    assert agent.last_layer is not None
    sampled = float(agent.last_layer.collected.count.sum())
    agent.fit_last_layer()
    precision = agent.online.head.posterior.factor @ agent.online.head.posterior.factor.swapaxes(-1, -2)
    phi = agent.features(agent.replay.gather(*agent.replay.index()).obs).numpy()
    once = (phi.astype(np.float64) ** 2).sum()
    counted = sum(np.trace(matrix) - 8 * 0.5 / 2.0 for matrix in precision)  # without the ridge
    assert sampled > 10 * len(phi)
    assert counted == pytest.approx(once, rel=0.25)
