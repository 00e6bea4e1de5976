"""H = 1, where the paper's algorithms are known ones: OFUL, Bayesian linear regression, LinUCB and LinTS of others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from mabwiser.mab import MAB, LearningPolicy
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from sklearn.linear_model import Ridge

from bdqn.bayes.noise import Fixed
from bdqn.bayes.posterior import Moments, Prior, fit
from bdqn.linear import LinPSRL, LinUCB, Replicas, play
from bdqn.linear.agents import lsvi_ucb
from bdqn.linear.draws import Draws
from bdqn.linear.families import Bandit, instances
from bdqn.linear.planning import Belief
from support.linear import linear_agent

Array = NDArray[np.float64]


class OFUL:
    """Abbasi-Yadkori, Pal and Szepesvari (2011), Figure 1 with the radius of Theorem 2. Written from that paper.

    Inverse and determinant are kept by the matrix determinant and Sherman-Morrison lemmas, unlike bdqn's.
    """

    def __init__(self, dim: int, noise: float, ridge: float, weight_norm: float, delta: float) -> None:
        self.inverse = np.eye(dim) / ridge
        self.log_ratio = 0.0  # log det(V_t) - log det(lambda I)
        self.sums = np.zeros(dim)
        self.noise, self.ridge, self.weight_norm, self.delta = noise, ridge, weight_norm, delta

    def choose(self, arms: Array, uniform: float) -> int:
        radius = self.noise * np.sqrt(self.log_ratio + 2 * np.log(1 / self.delta))
        radius += np.sqrt(self.ridge) * self.weight_norm
        index = arms @ (self.inverse @ self.sums)
        index += radius * np.sqrt(np.einsum("ad,de,ae->a", arms, self.inverse, arms))
        ties = np.flatnonzero(index > index.max() - 1e-9)
        return int(ties[int(uniform * len(ties))])

    def learn(self, arm: Array, reward: float) -> None:
        g = self.inverse @ arm
        growth = 1 + arm @ g
        self.inverse -= np.outer(g, g) / growth
        self.log_ratio += np.log(growth)
        self.sums += arm * reward


def oful_actions(replicas: Replicas, episodes: int, contexts: Array, rewards: Array) -> Iterator[Array]:
    """What OFUL plays where our agent was, with the same rewards and the same numbers for its ties."""
    known = replicas.known
    agents = [OFUL(known.dim, known.sigma, 1.0, known.weight_norm, 0.1) for _ in replicas.mdps]
    uniforms = Draws(range(len(replicas)), "agent")
    for t in range(episodes):
        arms = replicas.features[np.arange(len(replicas)), 0, contexts[:, t]]
        chosen = [agent.choose(a, u) for agent, a, u in zip(agents, arms, uniforms.uniform(1)[:, 0], strict=True)]
        yield np.array(chosen)
        for agent, a, action, reward in zip(agents, arms, chosen, rewards[:, t], strict=True):
            agent.learn(a[action], reward)


@pytest.mark.parametrize(("rounds", "states"), [(300, 1), (300, 5), pytest.param(10_000, 5, marks=pytest.mark.long)])
def test_linucb_plays_what_oful_plays(rounds: int, states: int) -> None:
    replicas = instances(Bandit(states=states), 20)
    agent = linear_agent(LinUCB(delta=0.1), replicas)
    states_met, actions, rewards = (np.empty((20, rounds)) for _ in range(3))
    for t, played in zip(range(rounds), play(replicas, agent, range(20)), strict=False):
        states_met[:, t], actions[:, t], rewards[:, t] = (column[:, 0] for column in played.episodes)
    theirs = oful_actions(replicas, rounds, states_met.astype(int), rewards)
    for t, chosen in enumerate(theirs):
        assert (chosen == actions[:, t]).all(), f"round {t}"


def data(seed: int, rows: int = 60, dim: int = 4) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, dim))
    return x, x @ rng.standard_normal(dim) + 0.3 * rng.standard_normal(rows)


@pytest.mark.parametrize("seed", range(5))
def test_linpsrl_has_the_posterior_of_ridge_regression_and_of_a_gaussian_process(seed: int) -> None:
    replicas = instances(Bandit(states=4, noise=0.2), 3, first=seed)
    settings = LinPSRL(prior_var=0.7)
    agent = linear_agent(settings, replicas)
    chosen, rewards = [], []
    for _, played in zip(range(50), play(replicas, agent, range(3)), strict=False):
        state, action, reward = (column[1, 0] for column in played.episodes)
        chosen.append(replicas.features[1, 0, state, action])
        rewards.append(reward)
    step = agent.steps(agent.memory, Draws(range(3), "agent"))[0]
    x, y = np.array(chosen), np.array(rewards)
    ridge = Ridge(alpha=0.2**2 / 0.7, fit_intercept=False, solver="cholesky").fit(x, y)
    np.testing.assert_allclose(step.belief.posterior.mean[1], ridge.coef_, atol=1e-10)
    kernel = ConstantKernel(0.7, "fixed") * DotProduct(0.0, "fixed")
    process = GaussianProcessRegressor(kernel, alpha=0.2**2, optimizer=None).fit(x, y)
    arms = replicas.features[1, 0].reshape(-1, 4)
    mean, covariance = process.predict(arms, return_cov=True)
    np.testing.assert_allclose(arms @ step.belief.posterior.mean[1], mean, atol=1e-10)
    variance = (step.belief.width[1] ** 2 * 0.2**2).reshape(-1)
    np.testing.assert_allclose(variance, np.diag(covariance), atol=1e-10)


def test_draws_have_the_posteriors_covariance() -> None:
    """factor' (w - mean) = std z, the whole definition of a draw."""
    x, y = data(0)
    posterior = fit(Moments.zero(4).add(x, y), Prior(0.5, Fixed(0.09)))
    z = np.random.default_rng(0).standard_normal((50, 4))
    spread = (np.array([posterior.at(row) for row in z]) - posterior.mean) @ posterior.factor
    np.testing.assert_allclose(spread, 0.3 * z, atol=1e-12)


ARMS, CONTEXT = 3, 4


def disjoint(contexts: Array) -> Array:
    """A regression of its own for every arm, as one with arms * context features. (n, arms, arms * context)"""
    return np.einsum("ab,nc->nabc", np.eye(ARMS), contexts).reshape(len(contexts), ARMS, ARMS * CONTEXT)


def belief_of(contexts: Array, actions: NDArray[np.int64], rewards: Array, new: Array, prior: Prior) -> Belief:
    rows = disjoint(contexts)[np.arange(len(contexts)), actions]
    posterior = fit(Moments.zero(ARMS * CONTEXT, (1,)).add(rows[None], rewards[None]), prior)
    return Belief(posterior, disjoint(new)[None], np.zeros(1))


def test_mabwiser_gives_the_same_upper_confidence_bounds() -> None:
    rng = np.random.default_rng(0)
    contexts, new = rng.standard_normal((80, CONTEXT)), rng.standard_normal((6, CONTEXT))
    actions, rewards = rng.integers(ARMS, size=80), rng.standard_normal(80)
    theirs = MAB(list(range(ARMS)), LearningPolicy.LinUCB(alpha=1.3, l2_lambda=0.5))
    theirs.fit(actions, rewards, contexts)
    expected = [[row[arm] for arm in range(ARMS)] for row in theirs.predict_expectations(new)]
    belief = belief_of(contexts, actions, rewards, new, Prior(var=1 / 0.5))
    act, _ = lsvi_ucb(1.3)(belief, Draws([0], "agent"))
    np.testing.assert_allclose(belief.q(act)[0], expected, atol=1e-10)


def test_mabwiser_samples_from_the_same_posterior() -> None:
    rng = np.random.default_rng(1)
    contexts, new = rng.standard_normal((40, CONTEXT)), rng.standard_normal((2000, CONTEXT))
    new[:] = new[0]  # one context, many draws
    actions, rewards = rng.integers(ARMS, size=40), rng.standard_normal(40)
    theirs = MAB(list(range(ARMS)), LearningPolicy.LinTS(alpha=0.6, l2_lambda=0.5), seed=7)
    theirs.fit(actions, rewards, contexts)
    values = np.array([[row[arm] for arm in range(ARMS)] for row in theirs.predict_expectations(new)])
    noise = Fixed(0.6**2)
    belief = belief_of(contexts, actions, rewards, new[:1], Prior(0.6**2 / 0.5, noise))
    mean, std = belief.q(belief.expected())[0, 0], 0.6 * belief.width[0, 0]
    assert (np.abs(values.mean(0) - mean) < 4 * std / np.sqrt(2000)).all()
    assert (np.abs(values.std(0) / std - 1) < 0.08).all()  # four standard errors: 4 / sqrt(2 * 2000) = 0.063
