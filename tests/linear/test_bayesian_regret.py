"""Problems drawn from LinPSRL's own prior: its belief is calibrated, and its mean regret is Bayesian regret."""

from __future__ import annotations

import warnings
from itertools import islice

import numpy as np
import pytest

from bdqn.linear import LinPSRL, play, run
from bdqn.linear.bounds import Constants, theorem_1
from bdqn.linear.draws import Draws
from bdqn.linear.families import GaussianQ, instances
from bdqn.linear.regret import optimistic
from support.linear import linear_agent


def test_gaussian_q_is_drawn_from_linpsrls_prior() -> None:
    """Weights of many instances have the prior's moments, and Q* is linear in them: recovered exactly."""
    family = GaussianQ(horizon=2, dim=3)
    weights = np.array([family.make(np.random.default_rng(seed)).omega_star for seed in range(800)])  # (800, 2, 3)
    flat = weights.reshape(800, -1)
    np.testing.assert_allclose(flat.mean(0), 0.5, atol=4 * 0.1 / np.sqrt(800))
    np.testing.assert_allclose(np.cov(flat.T), 0.01 * np.eye(6), atol=4 * 0.01 * np.sqrt(2 / 800))


def test_with_the_right_prior_linpsrls_belief_is_calibrated() -> None:
    """H = 1: given the data, omega* and a draw have the same law. |omega* - mean|^2 in its covariance has mean d."""
    replicas = instances(GaussianQ(), 600)
    settings = LinPSRL(prior_mean=0.5, prior_var=0.01)
    agent = linear_agent(settings, replicas)
    for _ in islice(play(replicas, agent, range(600)), 20):
        pass
    posterior = agent.steps(agent.memory, Draws(range(600), "agent"))[0].belief.posterior
    off = np.einsum("rji,rj->ri", posterior.factor, replicas.omega_star[:, 0] - posterior.mean)
    squares = (off**2).sum(1) / posterior.noise_var
    assert squares.mean() == pytest.approx(4, abs=4 * np.sqrt(2 * 4 / 600))


def test_bayesian_regret_is_below_theorem_1_and_suffers_from_a_narrow_prior() -> None:
    replicas = instances(GaussianQ(), 600)
    narrow, right = (
        run(replicas, LinPSRL(prior_mean=0.5, prior_var=var).make(replicas.known), 150, range(600)).exact.sum(1).mean()
        for var in (0.0001, 0.01)
    )
    assert right < 0.7 * narrow
    assert right < theorem_1(Constants.of(replicas.known, ridge=1.0), np.zeros(1), 150)


def test_the_right_prior_is_not_warned_of() -> None:
    """Around a mean of its own a prior may be narrow."""
    replicas = instances(GaussianQ(), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinPSRL(prior_mean=0.5, prior_var=0.01).make(replicas.known)


def test_draws_are_as_often_optimistic_as_not_and_more_often_if_inflated() -> None:
    """H = 1, the right prior: the values of omega* and of a draw are exchangeable; each is larger half of the time."""
    replicas = instances(GaussianQ(), 600)
    shares = []
    for inflation in ("0.2", "1", "3"):
        settings = LinPSRL(prior_mean=0.5, prior_var=0.01, inflation=inflation)
        plans = islice(play(replicas, settings.make(replicas.known), range(600)), 15)
        shares.append(np.mean([optimistic(replicas, played.plan) for played in plans]))
    assert shares[0] < 0.45
    assert shares[1] == pytest.approx(0.5, abs=0.03)
    assert shares[2] > 0.6
