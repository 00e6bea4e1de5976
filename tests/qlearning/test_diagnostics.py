"""How posteriors fare: with rewards of any size, and on transitions that they have not seen."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import bdqn
import bdqn.qlearning.last_layer
from bdqn.bayes.predictions import predictive_std
from bdqn.networks.heads import BayesianHead
from bdqn.qlearning.diagnostics import (
    CALIBRATION_METRICS,
    COLD,
    HOT,
    PATIENCE,
    PosteriorWatch,
    Rows,
    SpreadWarning,
    calibration,
)
from bdqn.qlearning.metric_names import metric_names
from bdqn.replay.buffer import Replay
from support.probes import MatchingAction

TRAINING: dict[str, Any] = {
    "learning_starts": 100,
    "learning_rate": 3e-3,
    "target_update_interval": 50,
    "posterior_update_interval": 50,
    "train_freq": 1,
    "gamma": 0.5,
    "features": 32,
}


def scaled(factor: float) -> gym.Env[Any, Any]:
    return gym.wrappers.TransformReward(MatchingAction(), lambda reward: factor * reward)


@pytest.mark.parametrize("agent", ["ddqn", "bdqn"])
@pytest.mark.parametrize("factor", [100.0, 2.0**-10])
def test_rewards_in_another_unit_leave_every_action_unchanged(agent: str, factor: float) -> None:
    """The default preset, on CartPole: the same actions, and Q in the new unit."""
    small = {"learning_starts": 200, "target_update_interval": 200}

    def run(unit: float) -> tuple[bdqn.Learner, list[int]]:
        def paid() -> gym.Env[Any, Any]:
            return gym.wrappers.TransformReward(gym.make("CartPole-v1"), lambda reward: unit * reward)

        learner, lengths = bdqn.make(agent, paid, seed=2, **small), []
        learner.learn(900, lambda _, step: lengths.extend(episode.length for episode in step.episodes))
        return learner, lengths

    (plain, plain_lengths), (scaled_, scaled_lengths) = run(1.0), run(factor)
    assert plain_lengths == scaled_lengths
    observation = plain.envs.obs
    np.testing.assert_allclose(scaled_.q_values(observation), factor * plain.q_values(observation), rtol=1e-4)
    if agent == "bdqn":
        spreads = [learner.q_posterior(observation).std for learner in (plain, scaled_)]
        np.testing.assert_allclose(spreads[1], factor * spreads[0], rtol=1e-3)


@pytest.mark.parametrize("factor", [0.01, 10_000.0])
def test_learned_noise_follows_the_rewards_without_scaling_them(factor: float) -> None:
    settings = {"noise": "inverse-gamma", "reward_scaling": False}
    learner = bdqn.make("bdqn", scaled(factor), seed=1, **settings, **TRAINING).learn(1200)
    assert learner.predict([[1.0, 0.0], [-1.0, 0.0]])[0].tolist() == [1, 0]
    q = learner.q_posterior([1.0, 0.0])
    np.testing.assert_allclose(q.mean / factor, [-1.0, 1.0], atol=0.3)
    assert (q.std < factor).all()


def test_the_unit_is_known_from_the_first_reward_on() -> None:
    """While every reward is zero there is no unit; the first ones to come set it, once."""
    learner = bdqn.make("ddqn", LatePayer, reward_scaling=True, learning_starts=20)
    learner.learn(30)
    assert learner.agent.targets.reward_unit == 0.0
    learner.learn(40)
    assert learner.agent.targets.reward_unit == pytest.approx(50.0)


class LatePayer(MatchingAction):
    """Nothing for 50 decisions, then 50 or -50 each."""

    paid = 0

    def earn(self, action: int) -> float:
        self.paid += 1
        return 50.0 * super().earn(action) if self.paid > 50 else 0.0


@pytest.mark.parametrize(("factor", "fault"), [(1e-5, "almost at random"), (1e5, "hardly explores")])
def test_a_fixed_noise_that_does_not_fit_the_rewards_is_reported_with_what_to_set(factor: float, fault: str) -> None:
    settings = {"noise": "fixed", "noise_var": 1.0, "reward_scaling": False}
    learner = bdqn.make("bdqn", scaled(factor), **settings, **TRAINING)
    with pytest.warns(SpreadWarning, match=fault) as caught:
        learner.learn(2500)
    assert len(caught) == 1
    assert "noise='inverse-gamma'" in str(caught[0].message)


def refits(watch: PosteriorWatch, ratio: float, count: int) -> None:
    for _ in range(count):
        metrics = {"posterior/std_mean": ratio, "posterior/action_gap": 1.0, "posterior/noise_var": 4.0}
        watch.look(metrics, q_size=1.0, fixed_noise=True)


@pytest.mark.parametrize("ratio", [2 * HOT, COLD / 2])
def test_only_a_lasting_disproportion_is_reported_and_only_once(ratio: float) -> None:
    watch = PosteriorWatch()
    refits(watch, ratio, PATIENCE - 1)
    refits(watch, 1.0, 1)
    refits(watch, ratio, PATIENCE - 1)
    with pytest.warns(SpreadWarning, match=re.escape(f"{4.0 / ratio**2:.2g}")):
        refits(watch, ratio, 1)
    refits(watch, ratio, PATIENCE)


def test_actions_that_are_truly_alike_are_no_reason_to_warn() -> None:
    watch = PosteriorWatch()
    for _ in range(2 * PATIENCE):
        metrics = {"posterior/std_mean": 0.1, "posterior/action_gap": 1e-6, "posterior/noise_var": 1.0}
        watch.look(metrics, q_size=1.0, fixed_noise=True)
    assert not watch.warned


# --- calibration --------------------------------------------------------------------------------------------------


def cartpole(agent: str = "bdqn", num_envs: int = 1, **settings: Any) -> bdqn.Learner:
    small = {"learning_starts": 100, "buffer_size": 400, "features": 16, "posterior_update_interval": 100}
    return bdqn.make(agent, "CartPole-v1", seed=3, num_envs=num_envs, **{**small, **settings})


def test_targets_that_scatter_as_believed_are_found_where_they_are_expected() -> None:
    """68 and 95 % of a Gaussian; half the scatter or double, and the belief is too wide or too narrow."""
    head = cartpole(prior_scale=1.0).learn(250).agent.online.head  # Q holds a frozen part beside the regression
    assert isinstance(head, BayesianHead)
    assert head.posterior is not None
    head.posterior = replace(head.posterior, noise_var=np.array([1.0, 9.0]))  # actions may differ in it
    rng = np.random.default_rng(0)
    phi = torch.from_numpy(rng.standard_normal((20_000, 16 + 2), np.float32))
    action = rng.integers(2, size=len(phi))
    every = np.arange(len(phi))
    mean = head.forward(phi, head.weights).numpy()[every, action]
    std = predictive_std(head.posterior, head.regressors(phi))[action, every]
    for scatter, expected in ((1.0, (0.683, 0.954)), (0.5, (0.954, 1.0)), (2.0, (0.383, 0.683))):
        target = torch.from_numpy(mean + scatter * std * rng.standard_normal(len(phi)))
        found = calibration(head, Rows(phi, action, target))
        np.testing.assert_allclose([found[name] for name in CALIBRATION_METRICS], expected, atol=0.015)


VARIANTS: list[dict[str, Any]] = [
    {},
    {"n_steps": 1},
    {"num_envs": 3, "gram_decay": 0.5},
    {"regression_head": "second-draw"},
    {"posterior_data": "minibatches", "evaluate_head": "second-draw"},
    {"last_layer": "gradient-prior"},
    {"agent": "bdqn-deep", "n_steps": 1},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_looking_at_unseen_transitions_leaves_training_as_it_is(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = cartpole(**settings).learn(450).agent
    assert all(0 <= looked.metrics[name] <= 1 for name in CALIBRATION_METRICS)
    monkeypatch.setattr(type(looked.last_layer), "unseen_rows", lambda _: None)
    blind = cartpole(**settings).learn(450).agent
    assert not blind.metrics.keys() & CALIBRATION_METRICS.keys()
    for name, value in looked.online.state_dict().items():
        assert torch.equal(value, blind.online.state_dict()[name]), name
    for name, rng in looked.rngs.items():
        assert rng.bit_generator.state == blind.rngs[name].bit_generator.state, name


class Counting(MatchingAction):
    """Observes how many decisions it has seen; an episode takes seven of them."""

    count = 0
    observation_space = gym.spaces.Box(0, np.inf, (2,), np.float32)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:  # type: ignore[override]
        return np.array([self.count, 0], np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return *self.reset()[:1], 1.0, self.count % 7 == 0, False, {}


@pytest.mark.parametrize("num_envs", [1, 3])
def test_only_transitions_since_the_last_fit_are_looked_at(num_envs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = bdqn.make(
        "bdqn", Counting, num_envs=num_envs, **{**TRAINING, "posterior_update_interval": 100, "n_steps": 1}
    )
    looks: list[tuple[int, list[float]]] = []  # each environment's decisions by then, and when what was seen began
    latest = Replay.latest

    def look(replay: Replay, count: int) -> Any:
        env, slot = latest(replay, count)
        looks.append((learner.num_timesteps // num_envs, replay.observations(env, slot)[:, 0].tolist()))
        return env, slot

    monkeypatch.setattr(Replay, "latest", look)
    learner.learn(720)
    last_fit = -(-100 // num_envs)  # the first one: there was no belief before it
    assert len(looks) == 6
    for now, began in looks:
        assert last_fit <= min(began) <= max(began) < now
        assert len(began) > 0.8 * num_envs * (now - last_fit)
        last_fit = now


@pytest.mark.parametrize("settings", [{}, {"regression_head": "second-draw"}, {"n_steps": 1}], ids=str)
def test_unseen_rows_have_the_targets_that_the_fit_will_give_to_them(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next fit reads the whole memory, and so those rows too."""
    agent = cartpole(**settings).learn(390).agent
    assert agent.last_layer is not None
    with torch.no_grad():
        unseen = agent.last_layer.unseen_rows()
        targets: list[float] = []
        td_target = agent.targets.td_target
        monkeypatch.setattr(agent.targets, "td_target", lambda *a: targets.extend((y := td_target(*a)).tolist()) or y)
        agent.fit_last_layer()
    assert unseen is not None
    assert len(unseen.target) > 40
    unread = [y for y in unseen.target.tolist() if not np.isclose(y, targets, rtol=1e-5).any()]
    assert not unread


def test_the_belief_is_asked_before_it_is_fitted_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = cartpole().learn(250).agent
    head = agent.online.head
    before, asked = head.posterior, []
    monkeypatch.setattr(bdqn.qlearning.last_layer, "calibration", lambda head, _: asked.append(head.posterior) or {})
    agent.fit_last_layer()
    assert asked == [before]
    assert head.posterior is not before


def test_before_the_first_fit_and_without_a_posterior_there_is_nothing_to_calibrate() -> None:
    assert not cartpole().learn(150).agent.metrics.keys() & CALIBRATION_METRICS.keys()
    solved = bdqn.make("ls-dqn", "CartPole-v1", learning_starts=100, buffer_size=400, features=16)
    assert not {*metric_names(solved.agent)} & CALIBRATION_METRICS.keys()
