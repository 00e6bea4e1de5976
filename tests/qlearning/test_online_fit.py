"""On-line updates of the posterior between two fits: each transition once, and as one batch would have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bdqn
from bdqn.config.settings import SettingError
from bdqn.storage.checkpoints import Checkpoints

# Nothing is learned but the last layer, and targets are rewards: a fit to all data at once gives the truth.
FROZEN: dict[str, Any] = {
    "learning_rate": 1e-30,
    "gamma": 0.0,
    "learning_starts": 100,
    "features": 8,
    "buffer_size": 4000,
    "reward_scaling": False,
    "posterior_update_interval": 10_000,
    "target_update_interval": 10_000,
    "posterior_batch_size": 4000,
}


@pytest.mark.parametrize("noise", ["fixed", "inverse-gamma"])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_it_is_the_posterior_of_one_batch(num_envs: int, noise: str) -> None:
    options = {"noise": noise, **({"noise_var": 0.5} if noise == "fixed" else {})}
    learner = bdqn.make(
        "bdqn", "MountainCar-v0", num_envs=num_envs, online_interval=30, n_steps=1, **options, **FROZEN
    ).learn(900)
    agent = learner.agent
    agent.last_layer.update()
    counted = agent.last_layer.moments
    online = agent.online.head.posterior
    assert counted.count.sum() == len(agent.replay)
    agent.fit_last_layer()
    batch = agent.online.head.posterior
    assert online.mean == pytest.approx(batch.mean, rel=1e-8, abs=1e-8)
    assert online.factor == pytest.approx(batch.factor, rel=1e-8, abs=1e-8)
    assert online.noise_var == pytest.approx(batch.noise_var, rel=1e-8)


def test_with_longer_returns_each_transition_is_counted_once_too() -> None:
    learner = bdqn.make("bdqn", "CartPole-v1", online_interval=7, n_steps=3, **FROZEN).learn(800)
    agent = learner.agent
    agent.last_layer.update()
    waiting = agent.replay.n_steps - 1  # their returns may still grow
    assert len(agent.replay) - waiting <= agent.last_layer.moments.count.sum() <= len(agent.replay)


def test_it_learns_between_fits_and_forgets_if_asked() -> None:
    plain, online, forgetting = (
        bdqn.make("bdqn", "CartPole-v1", n_steps=1, **own, **FROZEN).learn(600).agent
        for own in ({}, {"online_interval": 50}, {"online_interval": 50, "online_forgetting": 0.01})
    )
    assert not np.array_equal(plain.online.head.posterior.mean, online.online.head.posterior.mean)
    assert 50 < forgetting.last_layer.moments.count.sum() < 150 < online.last_layer.moments.count.sum()


def test_a_resumed_run_continues_exactly(tmp_path: Any) -> None:
    options = {**FROZEN, "gamma": 0.9, "learning_rate": 1e-3, "online_interval": 20}
    whole = bdqn.make("bdqn", "CartPole-v1", **options).learn(500)
    cut = bdqn.make("bdqn", "CartPole-v1", **options).learn(310)
    Checkpoints(tmp_path).save(cut)
    resumed = Checkpoints(tmp_path).load().learner.learn(190)
    assert np.array_equal(whole.agent.online.head.posterior.mean, resumed.agent.online.head.posterior.mean)
    assert np.array_equal(whole.agent.last_layer.moments.gram, resumed.agent.last_layer.moments.gram)


@pytest.mark.parametrize(
    ("agent", "settings", "said"),
    [
        ("bdqn", {"target_update_interval": 300}, "target_update_interval .* alike"),
        ("bdqn", {"gram_decay": 0.5}, "gram_decay = 0, or online_interval = 0"),
        ("bdqn-deep", {}, "online_interval = 0 and last_layer"),
    ],
)
def test_what_it_cannot_be_combined_with_is_refused(agent: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        bdqn.make(agent, "CartPole-v1", online_interval=10, **settings)
