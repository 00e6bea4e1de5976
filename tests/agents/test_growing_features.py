"""Frozen features grow with a small world, to twice its observations, so that what nobody has seen looks new."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.config.observations import ObservationSpec
from bdqn.config.settings import SettingError
from bdqn.networks.frozen_priors import FrozenFeatures, largest_count
from bdqn.storage.checkpoints import Checkpoints

# 16 observations, and at most 64 kinds of transition, which are a fifth of 320 decisions.
SMALL: dict[str, Any] = {
    "env_kwargs": {"size": 4},
    "learning_starts": 100,
    "features": 16,
    "buffer_size": 2000,
    "prior_features": 4,
    "prior_features_most": 64,
}
BEFORE, GROWTH, AFTER = 150, 350, 600  # decisions


def made(env: str = "bdqn/Grid-v0", **settings: Any) -> Any:
    return bdqn.make("bdqn-explore", env, **(SMALL | settings))


def frozen_width(agent: Any) -> int:
    widths = {
        agent.online.prior.features.count,
        agent.target.prior.features.count,
        agent.online.head.pool.shape[-1] - 17,  # beside 16 learned features and the constant
        agent.online.head.bold_pool.shape[-1] - 17,
        agent.online.head.posterior.dim - 17,
        agent.target.head.weights.shape[-1] - 17,
        agent.draws.acting.shape[-1] - 17,
    }
    (width,) = widths
    return int(width)


def same_weights(one: Any, other: Any) -> None:
    for name, value in one.agent.online.state_dict().items():
        assert torch.equal(value, other.agent.online.state_dict()[name]), name


def same(one: Any, other: Any) -> None:
    same_weights(one, other)
    assert torch.equal(one.agent.draws.acting, other.agent.draws.acting)
    assert one.agent.metrics == other.agent.metrics


def test_a_small_world_gets_twice_as_many_features_as_observations() -> None:
    learner = made().learn(BEFORE)
    assert frozen_width(learner.agent) == 4
    assert frozen_width(learner.learn(AFTER - BEFORE).agent) == 32


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("bdqn/Grid-v0", {"prior_features_most": 8}),  # which could not tell them apart
        ("bdqn/Grid-v0", {"prior_features_most": 0}),
        ("bdqn/Grid-v0", {"adapt": False}),
        ("CartPole-v1", {"env_kwargs": {}}),  # where nothing recurs
    ],
)
def test_features_stay_as_many_where_more_would_not_do(env: str, settings: dict[str, Any]) -> None:
    assert frozen_width(made(env, **settings).learn(AFTER).agent) == 4


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("cut", [BEFORE, GROWTH - 1, AFTER])
def test_a_run_resumed_before_or_after_growth_continues_exactly(num_envs: int, cut: int, tmp_path: Any) -> None:
    whole = made(num_envs=num_envs).learn(720)
    Checkpoints(tmp_path).save(made(num_envs=num_envs).learn(cut))
    resumed = Checkpoints(tmp_path).load().learner
    assert frozen_width(resumed.agent) == (32 if resumed.num_timesteps >= GROWTH else 4)
    same(whole, resumed.learn(720 - cut))


@pytest.mark.parametrize(
    "settings",
    [
        {"value_spread": 0.0, "last_layer": "gradient"},
        {"value_spread": 0.0, "last_layer": "gradient-prior"},
        {"value_spread": 0.0, "gram_decay": 0.5},
        {"gram_decay": 0.5},
        {"value_spread": 0.0, "online_interval": 10},
    ],
    ids=lambda settings: " ".join(settings),
)
def test_features_stay_as_many_where_data_outlive_a_fit(settings: dict[str, Any], tmp_path: Any) -> None:
    """What was kept of earlier data would not know the new features."""
    learner = made(backup_sweeps=0, **settings).learn(AFTER)
    assert learner.agent.online.prior.features.count == 4
    Checkpoints(tmp_path).save(learner)
    same_weights(learner, Checkpoints(tmp_path).load().learner)


def test_an_agent_is_refused_whose_features_could_not_all_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end in the middle of a run."""
    monkeypatch.setattr("bdqn.qlearning.memory.free_memory", lambda: 50_000_000)
    small = {"env_kwargs": {"size": 4}, "buffer_size": 2000, "features": 16, "posterior_batch_size": 1000}
    bdqn.make("bdqn-explore", "bdqn/Grid-v0", **small, prior_features=64, prior_features_most=64)
    with pytest.raises(SettingError, match="A posterior over 1,040 features"):
        bdqn.make("bdqn-explore", "bdqn/Grid-v0", **small, prior_features=64, prior_features_most=1024)


@pytest.mark.parametrize(("count", "most", "largest"), [(4, 64, 64), (4, 63, 32), (4, 4, 4), (4, 3, 4), (0, 64, 0)])
def test_features_double_as_often_as_they_may(count: int, most: int, largest: int) -> None:
    assert largest_count(count, most) == largest


def test_an_agent_whose_fit_was_put_off_as_features_grew_still_answers(tmp_path: Any) -> None:
    learner = made().learn(BEFORE)
    for _ in learner.steps(AFTER, stop=lambda: learner.agent.online.prior.features.count > 4):
        pass
    agent = learner.agent
    assert agent.last_layer.due
    assert frozen_width(agent) == 32
    obs = learner.envs.obs
    assert np.isfinite(agent.view(obs, agent.draws.acting).std).all()
    Checkpoints(tmp_path).save(learner)
    resumed = Checkpoints(tmp_path).load().learner
    assert resumed.agent.last_layer.due
    same(learner.learn(50), resumed.learn(50))


def test_what_was_not_seen_looks_new_once_there_are_enough_features() -> None:
    places = torch.eye(40)
    frozen = FrozenFeatures(
        ObservationSpec((40,), np.dtype(np.float32)), [16], 2, torch.Generator().manual_seed(0), 16, 0.5, 4, most=128
    )

    def left_of_variance() -> float:
        """Of an unseen place's prior variance, once 30 others were seen many times."""
        phi = frozen(places).double()
        seen, unseen = phi[:30], phi[30:]
        covariance = torch.linalg.inv(torch.eye(phi.shape[1]) + 1e4 * seen.T @ seen)
        return float(((unseen @ covariance) * unseen).sum(1).mean() / (unseen**2).sum(1).mean())

    assert left_of_variance() < 0.1
    before = frozen(places)
    assert frozen.grow(40) == 128  # 80 at least
    assert left_of_variance() > 0.3
    assert torch.allclose(frozen(places)[:, :16], before / 8**0.5)  # the same ones among them, at a norm of 1 together
    assert frozen.grow(100) == frozen.grow(1000) == 0
