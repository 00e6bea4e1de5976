"""Problems know their own optimum, and refuse to be built wrongly."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from bdqn.envs import DeepSea as DeepSeaEnv
from bdqn.linear import FAMILIES, MDP, Replicas
from bdqn.linear.families import (
    Bandit,
    CombinationLock,
    Coverage,
    DeepSea,
    LinearMDP,
    LinearQ,
    RandomTabular,
    RiverSwim,
    one_hot,
)
from bdqn.linear.gym_view import MDPEnv
from bdqn.linear.mdps import optimal_q, policy_value

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", FAMILIES)
def test_features_times_omega_star_is_q_star(name: str) -> None:
    mdp = FAMILIES[name]().make(np.random.default_rng(3))
    q = np.einsum("hxad,hd->hxa", mdp.features, mdp.omega_star)
    np.testing.assert_allclose(q, mdp.q_star, atol=1e-9)
    assert mdp.v_star.min() >= 0
    assert mdp.v_star.max() <= 1 + 1e-12


@given(seed=st.integers(0, 2**32), gamma=st.sampled_from([0.0, 0.5, 1.0]), horizon=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_reverse_built_problems_have_the_weights_they_were_built_from(seed: int, gamma: float, horizon: int) -> None:
    mdp = LinearQ(states=6, dim=4, horizon=horizon, gamma=gamma).make(np.random.default_rng(seed))
    scale = 1 / (2 * horizon + 1)
    np.testing.assert_allclose(np.linalg.norm(mdp.omega_star[:, :-1], axis=-1), scale)  # |w_h| = s
    constants = [2 * scale * sum(gamma**k for k in range(horizon - h)) for h in range(horizon)]
    np.testing.assert_allclose(mdp.omega_star[:, -1], constants)  # c_h = gamma c_{h+1} + 2s


def test_a_linear_q_problem_is_not_a_linear_mdp() -> None:
    """Transitions outside the features' span: the paper's assumption is weaker than Jin et al.'s."""
    for family, linear in ((LinearQ(), False), (LinearMDP(states=8), True)):
        mdp = family.make(np.random.default_rng(0))
        rows = mdp.features[0].reshape(-1, mdp.dim)
        kernel = mdp.transitions[0].reshape(-1, mdp.states)
        left_over = np.abs(rows @ np.linalg.lstsq(rows, kernel, rcond=None)[0] - kernel).max()
        assert (left_over < 1e-9) == linear


def test_dynamic_programming_agrees_with_trying_every_policy() -> None:
    mdp = RandomTabular(states=2, actions=2, horizon=3, noise=0.0).make(np.random.default_rng(1))
    best = np.zeros(2)
    for actions in product(range(2), repeat=6):
        policy = np.eye(2)[np.reshape(actions, (3, 2))]
        value = policy_value(policy, mdp.rewards, mdp.transitions, 0.7)
        best = np.maximum(best, value)
    np.testing.assert_allclose(optimal_q(mdp.rewards, mdp.transitions, 0.7)[0].max(-1), best)


def test_policy_value_agrees_with_playing() -> None:
    mdp = RandomTabular(states=3, horizon=2).make(np.random.default_rng(5))
    env = MDPEnv(mdp)
    env.reset(seed=0)
    returns = []
    for _ in range(4000):
        observation, _ = env.reset()
        total = 0.0
        for h in range(2):
            observation, reward, terminated, _, _ = env.step(mdp.optimal_actions[h, int(observation) % 3])
            total += reward
        assert terminated
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - env.optimal_return) < 4 * error


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_a_gymnasium_view(name: str) -> None:
    check_env(MDPEnv(FAMILIES[name]().make(np.random.default_rng(0))), skip_render_check=True)


@pytest.mark.parametrize("size", [2, 5, 10])
def test_deep_sea_is_the_environment_of_that_name(size: int) -> None:
    mdp, env = DeepSea(size=size, mapping=3).make(RNG), DeepSeaEnv(size=size, mapping_seed=3)
    assert mdp.v_star[0, 0] == pytest.approx(env.optimal_return)
    rng = np.random.default_rng(0)
    for _ in range(20):
        env.reset(seed=0)
        column = 0
        for row in range(size):
            action = int(rng.integers(2))
            grid, reward, terminated, _, _ = env.step(action)
            assert reward == mdp.rewards[row, column, action]
            column = int(mdp.transitions[row, column, action].argmax())
            assert terminated or grid[row + 1, column] == 1


def test_values_in_closed_form() -> None:
    lock = CombinationLock(horizon=4, actions=3).make(RNG)
    assert lock.v_star[0].tolist() == [1.0, 0.0]
    uniform = np.full((4, 2, 3), 1 / 3)
    assert policy_value(uniform, lock.rewards, lock.transitions, 1.0)[0] == pytest.approx(3.0**-4)
    river = RiverSwim(states=6, horizon=20).make(RNG)
    assert river.optimal_actions[0, 0] == 1  # far-sighted: swim
    assert river.optimal_actions[-1, 0] == 0  # at the end: take what is there
    assert Coverage(gap=0.2).make(RNG).v_star[0, 0] == pytest.approx(0.7)
    bandit = Bandit(dim=3, states=5).make(RNG)
    np.testing.assert_allclose(np.linalg.norm(bandit.features, axis=-1), 1)
    assert bandit.weight_norm == pytest.approx(1)


def test_sigma_bounds_the_noise_of_targets() -> None:
    """E exp(a nu) <= exp(a^2 sigma^2 / 2), computed exactly, for every state and action."""
    mdp = LinearQ(noise=0.05).make(np.random.default_rng(2))
    for h, x, action in np.ndindex(*mdp.rewards.shape):
        ahead = mdp.v_star[h + 1] if h + 1 < mdp.horizon else np.zeros(mdp.states)
        nu = mdp.rewards[h, x, action] + ahead - mdp.q_star[h, x, action]
        probabilities = mdp.transitions[h, x, action]
        assert probabilities @ nu == pytest.approx(0, abs=1e-12)
        for a in (-20.0, -3.0, 0.5, 8.0):
            moment = probabilities @ np.exp(a * nu) * np.exp(a**2 * 0.05**2 / 2)
            assert moment <= np.exp(a**2 * mdp.sigma**2 / 2) * (1 + 1e-12)


def parts(**changes: Any) -> dict[str, Any]:
    rewards = np.full((2, 3, 2), 0.25)
    fine: dict[str, Any] = {
        "features": one_hot(rewards),
        "rewards": rewards,
        "transitions": np.full((2, 3, 2, 3), 1 / 3),
        "start": np.full(3, 1 / 3),
    }
    return fine | changes


NAN = np.full((2, 3, 2), np.nan)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"features": np.ones((2, 3, 2))}, r"features must have the axes \(H, S, A, d\)"),
        ({"features": np.ones((3, 3, 2, 6))}, r"rewards must have the shape \(3, 3, 2\) to match features"),
        ({"features": np.ones((0, 3, 2, 6))}, "H must be at least 1"),
        ({"features": np.ones((2, 3, 2, 0))}, "d must be at least 1"),
        ({"features": np.full((2, 3, 2, 6), np.nan)}, "features must be finite, without NaN"),
        ({"rewards": NAN}, "rewards must be finite, without NaN"),
        ({"rewards": np.full((2, 3, 2), 1.5)}, "outside the declared range 0 to 1: declare a wider reward_range"),
        ({"rewards": np.full((2, 3, 2), 0.9)}, "V\\* goes from 0.9 to 1.8"),
        ({"features": np.ones((2, 3, 2, 1)), "rewards": np.arange(12).reshape(2, 3, 2) / 40}, "Q\\* is not linear"),
        ({"start": np.ones(3)}, "start must be probabilities"),
        ({"transitions": np.full((2, 3, 2, 3), 0.5)}, "transitions must be probabilities"),
        ({"gamma": 1.1}, "gamma must be between 0 and 1"),
        ({"reward_noise": -1.0}, "reward_noise is a standard deviation"),
    ],
)
def test_wrong_problems_are_refused_with_a_remedy(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        MDP("wrong", **parts(**changes))
    MDP("fine", **parts())


def test_replicas_must_have_one_shape() -> None:
    with pytest.raises(ValueError, match="Replicas must share H, S, A, d and gamma"):
        Replicas.of([LinearQ(horizon=1).make(RNG), LinearQ(horizon=2).make(RNG)])
    with pytest.raises(ValueError, match="no problem to play"):
        Replicas.of([])
