"""The agent's schedules, targets and draws, on steps made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bdqn.agents import AGENTS
from bdqn.config.settings import Training
from bdqn.networks.heads import TrainingIndices
from bdqn.qlearning.agent import QAgent
from bdqn.qlearning.describe import describe
from support.agents import VECTOR, build, changes, draws_over, make_agent, play, random_batch, step_of


def record_calls(agent: QAgent, monkeypatch: pytest.MonkeyPatch, *names: str) -> dict[str, list[int]]:
    """At which decision each method was called; the methods still do their work."""
    calls: dict[str, list[int]] = {name: [] for name in names}
    for name in names:
        original = getattr(agent, name)

        def wrapper(*args: Any, _name: str = name, _original: Any = original) -> Any:
            calls[_name].append(agent.steps)
            return _original(*args)

        monkeypatch.setattr(agent, name, wrapper)
    return calls


@pytest.mark.parametrize("num_envs", [1, 4])
def test_updates_syncs_and_refits_come_when_they_are_due(num_envs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make_agent(num_envs)
    calls = record_calls(agent, monkeypatch, "update", "sync", "fit_last_layer")
    play(agent, 60)
    # All intervals count from the start of learning, in decisions over all environments.
    assert calls["update"] == list(range(24, 61, 4))
    assert calls["sync"] == list(range(28, 61, 8))
    assert calls["fit_last_layer"] == [36, 52]


def test_several_updates_are_made_when_one_step_of_many_environments_spans_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = make_agent(8, training={"train_freq": 2, "learning_starts": 16})
    calls = record_calls(agent, monkeypatch, "update")
    play(agent, 64)
    assert calls["update"] == [step for step in range(24, 65, 8) for _ in range(4)]


def test_the_first_refit_can_come_as_soon_as_learning_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make_agent(first_refit="start")
    calls = record_calls(agent, monkeypatch, "fit_last_layer")
    play(agent, 40)
    assert calls["fit_last_layer"] == [20, 36]


def test_it_acts_uniformly_until_the_first_refit() -> None:
    agent = make_agent()
    play(agent, 35)
    assert not agent.online.head.fitted
    obs = np.ones((1, *VECTOR.shape), np.float32)
    assert {int(agent.act(obs)[0]) for _ in range(60)} == {0, 1, 2}
    play(agent, 1)
    assert agent.online.head.fitted
    assert len({int(agent.act(obs)[0]) for _ in range(60)}) == 1  # greedy under one draw


def test_the_posterior_is_fitted_to_the_features_that_the_target_evaluates_it_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = make_agent()
    order: list[str] = []
    for name in ("sync", "fit_last_layer"):
        original = getattr(agent, name)
        monkeypatch.setattr(agent, name, lambda *a, n=name, o=original: (order.append(n), o(*a)))
    play(agent, 36)  # the first decision at which both are due
    assert order == ["sync", "sync", "fit_last_layer"]
    assert torch.equal(agent.target.head.weights, agent.online.head.weights)
    for online, target in zip(agent.online.parameters(), agent.target.parameters(), strict=True):
        assert torch.equal(online, target)


def test_a_refit_is_the_regression_of_all_targets_on_all_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against dense formulas, on the very transitions that were replayed."""
    agent = make_agent(noise="fixed", noise_var=0.5, prior_var=2.0, bias_feature=False)
    play(agent, 35)
    old_weights = agent.online.head.weights.clone()
    index = agent.draws.training
    agent.targets.sync()
    batch = agent.replay.gather(*agent.replay.index())  # B exceeds what there is: each transition once
    agent.fit_last_layer()
    targets = agent.targets.td_target(
        batch, TrainingIndices(old_weights, index, old_weights), agent.choices.bootstrap
    ).numpy()
    phi = agent.features(batch.obs).numpy().astype(np.float64)
    for action in range(3):
        rows = batch.action == action
        covariance = np.linalg.inv(phi[rows].T @ phi[rows] / 0.5 + np.eye(8) / 2.0)
        mean = covariance @ phi[rows].T @ targets[rows] / 0.5
        np.testing.assert_allclose(agent.online.head.posterior.mean[action], mean, rtol=1e-6, atol=1e-9)


def test_target_is_discounted_cut_at_an_end_and_uses_clipped_rewards() -> None:
    agent = build("ddqn", VECTOR, Training(buffer_size=100, gamma=0.9, reward_clip=1.0))
    batch = random_batch(VECTOR)
    q = agent.target.head(agent.target.features(torch.as_tensor(batch.next_obs)), None).detach().numpy()
    expected = np.clip(batch.reward, -1, 1) + 0.9 * ~batch.terminal * q.max(1)  # online = target here
    target = agent.targets.td_target(batch, TrainingIndices(None, None, None), agent.choices.bootstrap)
    np.testing.assert_allclose(target, expected, rtol=1e-5)


def test_one_network_selects_and_the_other_evaluates() -> None:
    agent = build("ddqn", VECTOR, Training(buffer_size=100, gamma=1.0))
    with torch.no_grad():
        agent.target.head.last.weight.mul_(-1)
    agent.targets.in_sync = False
    batch = random_batch(VECTOR)
    next_obs = torch.as_tensor(batch.next_obs)
    online = agent.online.head(agent.online.features(next_obs), None)
    target = agent.target.head(agent.target.features(next_obs), None)
    rows = torch.arange(len(batch.action))
    expected = torch.as_tensor(batch.reward) + torch.as_tensor(~batch.terminal) * target[rows, online.argmax(1)]
    torch.testing.assert_close(
        agent.targets.td_target(batch, TrainingIndices(None, None, None), agent.choices.bootstrap), expected
    )


@pytest.mark.parametrize(("as_end", "stored"), [(False, False), (True, True)])
def test_a_timeout_is_terminal_only_where_the_settings_say_so(as_end: bool, stored: bool) -> None:
    agent = make_agent(training={"timeout_is_terminal": as_end})
    agent.observe(np.zeros(1, np.int64), step_of(np.random.default_rng(0), 1, ended=True, truncated=True))
    assert agent.replay.terminals[0, 0] == stored


def fitted(num_envs: int = 1, **settings: Any) -> QAgent:
    agent = make_agent(num_envs, first_refit="start", posterior_update_interval=10_000, **settings)
    play(agent, 24)
    return agent


def test_with_one_environment_and_one_schedule_the_training_draw_acts() -> None:
    agent = fitted(redraw="steps", sample_interval=6)
    draws = draws_over(agent, 18)
    assert all(np.array_equal(training, acting[0]) for training, acting in draws)
    assert changes([training for training, _ in draws]) == [5, 11, 17]  # decisions 30, 36, 42


def test_the_second_draw_acts_faster_than_the_training_draw() -> None:
    agent = fitted(redraw="steps", sample_interval=12, acting_sample_interval=3)
    draws = draws_over(agent, 24)
    assert changes([training for training, _ in draws]) == [11, 23]
    assert changes([acting for _, acting in draws]) == [2, 5, 8, 11, 14, 17, 20, 23]


def test_draws_at_episode_starts_last_for_the_episode() -> None:
    agent = fitted(redraw="episode")
    assert changes([training for training, _ in draws_over(agent, 15, episode=5)]) == [4, 9, 14]


def test_every_environment_has_its_own_acting_draw() -> None:
    agent = fitted(num_envs=4, redraw="episode")
    acting = agent.draws.acting.numpy()
    assert len({acting[i].tobytes() for i in range(4)}) == 4
    before = acting.copy()
    step = step_of(np.random.default_rng(0), 4)
    step.ended[2] = True
    agent.observe(np.zeros(4, np.int64), step)
    after = agent.draws.acting.numpy()
    assert [not np.array_equal(before[i], after[i]) for i in range(4)] == [False, False, True, False]


def test_a_refit_also_redraws_so_that_no_draw_outlives_its_posterior() -> None:
    agent = fitted(num_envs=2, redraw="episode")
    training, acting = agent.draws.training.clone(), agent.draws.acting.clone()
    agent.fit_last_layer()
    assert not torch.equal(agent.draws.training, training)
    assert not torch.equal(agent.draws.acting, acting)


def test_temperature_zero_draws_the_mean() -> None:
    agent = fitted(temperature=0.0)
    assert torch.equal(agent.draws.training, agent.online.head.weights)


@pytest.mark.parametrize("acting", ["ucb", "mean"])
def test_other_ways_to_act_on_the_same_posterior(acting: str) -> None:
    agent = fitted(acting=acting, ucb_scale=2.0)
    obs = np.random.default_rng(0).normal(size=(1, *VECTOR.shape)).astype(np.float32)
    view = agent.view(obs)
    expected = (view.mean + (2.0 * view.std if acting == "ucb" else 0)).argmax()
    assert agent.act(obs)[0] == expected


EPSILON = {"exploration_initial_eps": 1.0, "exploration_final_eps": 0.3, "exploration_decay_steps": 100}


def test_epsilon_greedy_on_a_posterior_chooses_all_but_the_head_as_double_dqn() -> None:
    bayesian, ddqn = AGENTS["bdqn"], AGENTS["ddqn"]
    ours = describe(bayesian.choices(bayesian.settings(acting="epsilon-greedy")))
    theirs = describe(ddqn.choices(ddqn.settings()))
    assert ours == theirs | {"head": "bayesian", "extras": "refit"}


def test_without_epsilon_it_acts_by_the_mean_and_draws_nothing() -> None:
    agent, by_mean = (
        fitted(num_envs=8, acting=acting, exploration_initial_eps=0.0, exploration_final_eps=0.0)
        for acting in ("epsilon-greedy", "mean")
    )
    assert torch.equal(agent.draws.training, agent.online.head.weights)
    for seed in range(5):
        obs = np.random.default_rng(seed).normal(size=(8, *VECTOR.shape)).astype(np.float32)
        expected = agent.view(obs).mean.argmax(1)
        np.testing.assert_array_equal(agent.act(obs), expected)
        np.testing.assert_array_equal(by_mean.act(obs), expected)


@pytest.mark.parametrize("step", [0, 50, 1_000])
def test_its_epsilon_is_double_dqns(step: int) -> None:
    """The same Q-values, the same dice, the same actions."""
    bayesian, ddqn = AGENTS["bdqn"], AGENTS["ddqn"]
    ours = bayesian.choices(bayesian.settings(acting="epsilon-greedy", **EPSILON)).policy
    theirs = ddqn.choices(ddqn.settings(**EPSILON)).policy
    agent = fitted()
    view = agent.view(np.random.default_rng(0).normal(size=(500, *VECTOR.shape)).astype(np.float32))
    actions = ours(view, step, np.random.default_rng(7))
    np.testing.assert_array_equal(actions, theirs(view, step, np.random.default_rng(7)))
    explored = (actions != view.mean.argmax(1)).mean() * 3 / 2  # one random action in three is the best one
    assert explored == pytest.approx({0: 1.0, 50: 0.65, 1_000: 0.3}[step], abs=0.1)


def test_a_row_of_its_own_draw_equals_that_draw_for_all_rows() -> None:
    agent = fitted(num_envs=3)
    obs = np.random.default_rng(0).normal(size=(3, *VECTOR.shape)).astype(np.float32)
    per_row = agent.view(obs, agent.draws.acting).draw
    for i in range(3):
        np.testing.assert_allclose(per_row[i], agent.view(obs, agent.draws.acting[i]).draw[i], rtol=1e-5)


@pytest.mark.parametrize("cut", [30, 41])
def test_state_restores_everything_but_the_replay(cut: int) -> None:
    original, copy = make_agent(2, first_refit="start"), make_agent(2, first_refit="start")
    play(original, cut)
    copy.load_state(original.state())
    for env in range(2):
        written = int(original.replay.written[env])
        copy.replay.restore(env, 0, original.replay.records(env, 0, written))
    for agent in (original, copy):
        play(agent, 40, episode=4)
    for a, b in zip(original.online.state_dict().values(), copy.online.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(original.draws.acting, copy.draws.acting)
    np.testing.assert_array_equal(original.online.head.posterior.factor, copy.online.head.posterior.factor)
    assert original.metrics == copy.metrics
