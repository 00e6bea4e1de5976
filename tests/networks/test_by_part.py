"""A last layer for each part of an episode: each is the regression on its own rows."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import bdqn
from bdqn.bayes.noise import Fixed
from bdqn.bayes.posterior import Moments, Prior, fit
from bdqn.config.settings import SettingError
from bdqn.envs import EpisodeParts
from bdqn.networks.heads import HeadShape, PartsHead

WIDTH, PARTS, ACTIONS = 3, 2, 2
SHAPE = HeadShape((5, WIDTH), ACTIONS, PARTS)
PRIOR = Prior(2.0, Fixed(0.5))


def head_of(fewest_rows: int = 0) -> PartsHead:
    return PartsHead(SHAPE, torch.Generator().manual_seed(0), prior=PRIOR, fewest_rows=fewest_rows)


def rows(count: int, part: int, seed: int) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """The torso's output with the part behind it, actions and targets."""
    rng = np.random.default_rng(seed)
    x = torch.tensor(rng.normal(size=(count, 5)), dtype=torch.float32)
    flags = torch.nn.functional.one_hot(torch.full((count,), part), PARTS)
    return torch.cat([x, flags], dim=1), rng.integers(ACTIONS, size=count), rng.normal(size=count)


def features_of(head: PartsHead, x: torch.Tensor) -> torch.Tensor:
    return head.features_beside(x[:, :5], x[:, 5:])


def moments_of(head: PartsHead, *data: tuple[torch.Tensor, np.ndarray, np.ndarray]) -> Moments:
    moments = Moments.zero(head.dim, (ACTIONS,))
    for x, action, target in data:
        moments.add_by_action(head.regressors(features_of(head, x)), action, target)
    return moments


def fitted(head: PartsHead, *data: tuple[torch.Tensor, np.ndarray, np.ndarray]) -> PartsHead:
    with torch.no_grad():
        head.fit(moments_of(head, *data), None, np.random.default_rng(0))
    return head


def test_each_part_has_the_regression_on_its_own_rows() -> None:
    early, late = rows(40, 0, 1), rows(30, 1, 2)
    head = fitted(head_of(), early, late)
    with torch.no_grad():
        for part, (x, action, target) in enumerate((early, late)):
            phi = head.dense(x[:, :5]).numpy().astype(np.float64)
            alone = Moments.zero(WIDTH + 1, (ACTIONS,))
            own = np.hstack([phi, np.ones((len(phi), 1))])
            alone.add_by_action(own, action, target)
            posterior = fit(alone, PRIOR)
            belief = head.belief_at(features_of(head, x))
            np.testing.assert_allclose(belief.mean, (posterior.mean @ own.T).T, rtol=1e-6)
            np.testing.assert_allclose(belief.std, posterior.std(own).T, rtol=1e-6)
            assert np.array_equal(head.columns(part)[-1:], [PARTS * WIDTH + part])


def test_a_part_of_which_few_rows_are_left_keeps_its_last_layer() -> None:
    early, late = rows(40, 0, 1), rows(30, 1, 2)
    head = fitted(head_of(fewest_rows=10), early, late)
    before = head.belief_at(features_of(head, early[0]))
    few, more = rows(9, 0, 3), rows(200, 1, 4)
    fitted(head, few, more)
    after = head.belief_at(features_of(head, early[0]))
    np.testing.assert_allclose(after.mean, before.mean, rtol=1e-12)
    np.testing.assert_allclose(after.std, before.std, rtol=1e-12)
    fresh = fitted(head_of(), few, more)
    late_phi = features_of(head, late[0])
    np.testing.assert_allclose(head.belief_at(late_phi).mean, fresh.belief_at(late_phi).mean, rtol=1e-9)
    fitted(head, rows(10, 0, 3), more)
    assert np.abs(head.belief_at(features_of(head, early[0])).mean - before.mean).max() > 0.01


SMALL: dict[str, Any] = {"posterior_parts": 2, "learning_starts": 20, "features": 8, "posterior_update_interval": 20}


def test_the_parts_act_apart_in_an_agent() -> None:
    """After a while among the late ones alone, the early ones' belief has not moved but with the features."""
    learner = bdqn.make("bdqn", "bdqn/Flood-v0", seed=0, buffer_size=500, **SMALL).learn(400)
    head = learner.agent.online.head
    assert isinstance(head, PartsHead)
    assert head.dim == 2 * (8 + 1)
    cross = head.posterior.factor[:, head.columns(0)[:, None], head.columns(1)]
    assert not cross.any()


@pytest.mark.parametrize(
    ("env", "settings", "message"),
    [
        ("CartPole-v1", {}, "EpisodeParts adds"),
        ("FrozenLake-v1", {}, "no vectors of numbers"),
        ("bdqn/Flood-v0", {"bias_feature": False}, "set bias_feature = true"),
        ("bdqn/Flood-v0", {"prior_scale": 1.0}, "prior_scale = 0"),
        ("bdqn/Flood-v0", {"last_layer": "gradient"}, "last_layer = regression"),
    ],
)
def test_what_has_no_parts_is_refused(env: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        bdqn.make("bdqn", env, **SMALL, **settings)


def test_deep_agents_refuse_parts() -> None:
    with pytest.raises(SettingError, match="bdqn's alone"):
        bdqn.make("bdqn-deep", "bdqn/Flood-v0", posterior_parts=2)


def test_any_environment_of_vectors_can_be_given_parts() -> None:
    def make() -> gym.Env:
        return EpisodeParts(gym.make("CartPole-v1"), [10])

    learner = bdqn.make("bdqn", make, seed=0, buffer_size=500, **SMALL).learn(60)
    assert learner.q_posterior(learner.envs.obs[0]).mean.shape == (2,)
