"""Agents by what they play: reductions, exploration, settings that are refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from bdqn.linear import (
    AGENTS,
    LSVIUCB,
    PSRL,
    LinPSRL,
    LinUCB,
    LSVIBoltzmann,
    LSVIEpsilon,
    PriorScaleWarning,
    Replicas,
    play,
    run,
)
from bdqn.linear.agents import Plan, boltzmann, epsilon_greedy, greedy
from bdqn.linear.draws import Draws, choose
from bdqn.linear.families import Bandit, CombinationLock, DeepSea, LinearQ, RandomTabular, instances
from bdqn.linear.regret import exact_regret, growth_exponent, trajectory_regret
from bdqn.linear.statistics import Episodes
from support.linear import linear_agent, the_same


def quiet(settings: LinPSRL, replicas: Replicas) -> Any:
    """An agent whose prior is meant to be what it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorScaleWarning)
        return settings.make(replicas.known)


def test_policies_by_hand() -> None:
    index = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0 + 1e-12]])
    assert greedy(index).tolist() == [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    np.testing.assert_allclose(epsilon_greedy(0.3)(index)[0], [0.45, 0.45, 0.1])
    np.testing.assert_allclose(boltzmann(0.5)(np.array([0.0, np.log(2) / 2])), [1 / 3, 2 / 3])


def test_outcomes_come_with_their_probabilities() -> None:
    probabilities = np.array([0.2, 0.0, 0.5, 0.3])
    drawn = choose(np.tile(probabilities, (100_000, 1)), np.random.default_rng(0).random(100_000))
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 100_000, probabilities, atol=0.006)


def test_exact_regret_is_what_trajectories_lose_on_average() -> None:
    """The performance-difference lemma: many trajectories of one fixed policy."""
    replicas = the_same(LinearQ(gamma=0.9).make(np.random.default_rng(0)), 400)
    policy = np.full((400, 3, 8, 3), 1 / 3)

    class Fixed:
        def plan(self, draws: Draws) -> Plan:
            return Plan(policy, policy)

        def observe(self, played: Episodes) -> None: ...

    lost = [
        trajectory_regret(replicas, played.episodes)
        for _, played in zip(range(20), play(replicas, Fixed(), range(400)), strict=False)
    ]
    exact = exact_regret(replicas, policy)[0]
    assert abs(np.mean(lost) - exact) < 4 * np.std(lost) / np.sqrt(8000)
    optimal = np.eye(3)[replicas.q_star.argmax(-1)]
    assert exact_regret(replicas, optimal) == pytest.approx(np.zeros(400), abs=1e-12)


def test_targets_coincide_without_a_future() -> None:
    """H = 1: sample, mean and pessimistic are one algorithm, Thompson sampling with the exact posterior."""
    replicas = instances(Bandit(states=3), 4)
    actions = []
    for target in ("sample", "mean", "pessimistic"):
        agent = LinPSRL(target=target).make(replicas.known)
        played = zip(range(50), play(replicas, agent, range(4)), strict=False)
        actions.append([step.episodes.actions for _, step in played])
    assert (np.array(actions[0]) == actions[1]).all()
    assert (np.array(actions[0]) == actions[2]).all()


def test_targets_are_the_values_they_are_named_after() -> None:
    """Many visits to one path: the estimate of step 1 is the reward there plus the value that step 2 teaches."""
    replicas = instances(LinearQ(horizon=2), 1)
    estimates = {}
    for target in ("sample", "mean", "pessimistic"):
        agent = linear_agent(LinPSRL(target=target), replicas)
        for _ in range(300):  # the same data for all three
            agent.observe(Episodes(np.array([[1, 2]]), np.array([[0, 1]]), np.array([[0.3, 0.1]])))
        first, second = agent.steps(agent.memory, Draws([5], "agent"))
        guesses = {
            "sample": second.act,
            "mean": second.belief.expected(),
            "pessimistic": second.belief.pessimistic(),
        }
        taught = second.belief.value(guesses[target])[0, 2]
        estimates[target] = replicas.features[0, 0, 1, 0] @ first.belief.posterior.mean[0]
        assert estimates[target] == pytest.approx(0.3 + taught, abs=0.01)
    assert abs(estimates["sample"] - estimates["mean"]) > 0.02  # or this would not tell them apart
    assert estimates["pessimistic"] < estimates["mean"] - 0.01


def test_inflated_draws_are_root_d_times_wider() -> None:
    replicas = instances(LinearQ(horizon=1, dim=9), 1)
    plain, wide = (
        linear_agent(LinPSRL(inflation=inflation), replicas).steps(
            linear_agent(LinPSRL(), replicas).memory, Draws([0], "agent")
        )[0]
        for inflation in ("1", "sqrt-d")
    )
    np.testing.assert_allclose(wide.act.weights, 3 * plain.act.weights)  # the prior's mean is zero


def test_a_narrow_prior_is_warned_of_and_loses_for_ever() -> None:
    """lambda = 1 with sigma = 0.12: values up to 1 under a prior of standard deviation 0.12. Regret is linear."""
    replicas = instances(RandomTabular(states=5, actions=5, horizon=1, noise=0.12), 10)
    narrow = LinPSRL(prior_var=0.12**2)
    with pytest.warns(PriorScaleWarning, match="Raise prior_var"):
        narrow.make(replicas.known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinPSRL().make(replicas.known)
    lost = {
        name: run(replicas, quiet(settings, replicas), 300, range(10)).exact[:, -50:].mean()
        for name, settings in (("narrow", narrow), ("wide", LinPSRL()))
    }
    assert lost["narrow"] > 0.08
    assert lost["wide"] < 0.03


def test_scale_trades_certainty_for_regret() -> None:
    replicas = instances(LinearQ(horizon=2, noise=0.02), 10)
    regret = [run(replicas, LinUCB(scale=s).make(replicas.known), 300, range(10)).exact.sum() for s in (1.0, 0.1)]
    assert regret[1] < regret[0] / 2


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_learns_a_bandit(name: str) -> None:
    replicas = instances(Bandit(actions=5, dim=3), 5)
    settings = {"lsvi-ucb": LSVIUCB(constant=0.02), "lsvi-epsilon": LSVIEpsilon(epsilon=0.05)}.get(name, AGENTS[name]())
    exact = run(replicas, settings.make(replicas.known), 300, range(5)).exact
    assert exact[:, -50:].mean() < 0.5 * exact[:, :5].mean()


def test_sampling_finds_what_epsilon_greedy_does_not() -> None:
    """DeepSea N = 10: one path in 1,024 pays. (More seeds, and N = 20, in test_rates.py.)"""
    replicas = the_same(DeepSea(size=10).make(np.random.default_rng(0)), 5)
    found = run(replicas, LinPSRL().make(replicas.known), 120, range(5)).returns > 0.5
    assert (found[:, -20:].mean(1) > 0.9).all()
    missed = run(replicas, LSVIEpsilon(epsilon=0.1).make(replicas.known), 120, range(5)).returns > 0.5
    assert missed.mean() < 0.02


def test_tabular_psrl_opens_a_lock() -> None:
    replicas = instances(CombinationLock(horizon=4, actions=3), 5)
    returns = run(replicas, PSRL(noise_std=0.05).make(replicas.known), 300, range(5)).returns
    assert (returns[:, -20:].mean(1) > 0.9).all()


def test_tabular_psrl_has_the_exact_posterior() -> None:
    replicas = instances(RandomTabular(states=2, horizon=2), 1)
    agent = PSRL(prior_count=2.0, reward_prior_var=0.5, noise_std=0.1).make(replicas.known)
    for reward in (0.2, 0.4, 0.6):
        agent.observe(Episodes(np.array([[0, 1]]), np.array([[1, 0]]), np.array([[reward, 0.0]])))
    # Dirichlet(1, 1) after three moves to state 1; rewards: ridge 0.01 / 0.5 = 0.02.
    assert agent.counts.successors[0, 0, 0, 1].tolist() == [1.0, 4.0]
    assert agent.counts.successors[0, 0, 0, 0].tolist() == [1.0, 1.0]
    draws = Draws([0], "agent")
    drawn = np.array([draws.dirichlet(agent.counts.successors)[0, 0, 0, 1, 1] for _ in range(2000)])
    assert abs(drawn.mean() - 0.8) < 0.02
    assert abs(drawn.var() - 0.8 * 0.2 / 6) < 0.004
    for reward in (0.2, 0.4, 0.6):
        agent.observe(Episodes(np.array([[0, 0]]), np.array([[0, 1]]), np.array([[0.0, reward]])))
    rewards = np.array([agent.plan(draws).q[0, 1, 0, 1] for _ in range(2000)])  # at the last step rewards are all
    assert abs(rewards.mean() - 1.2 / 3.02) < 0.006
    assert abs(rewards.var() - 0.01 / 3.02) < 0.0005


def test_growth_exponents_by_hand() -> None:
    t = np.array([10.0, 100.0, 1000.0])
    assert growth_exponent(t, 3 * t**0.5) == pytest.approx(0.5)
    np.testing.assert_allclose(growth_exponent(t, np.stack([t, np.full(3, 7.0)])), [1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LinUCB(delta=0.0), "delta must be between 0 and 1, both excluded, not 0.0"),
        (lambda: LinUCB(delta=1.0), "delta must be between 0 and 1"),
        (lambda: LinPSRL(delta=2.0), "delta must be between 0 and 1"),
        (lambda: LinUCB(ridge=0.0), r"ridge \(lambda\) must be above 0, not 0.0"),
        (lambda: LinUCB(ridge=float("nan")), r"ridge \(lambda\) must be above 0"),
        (lambda: LSVIEpsilon(ridge=-1.0), r"ridge \(lambda\) must be above 0"),
        (lambda: LSVIUCB(ridge=-1.0), r"ridge \(lambda\) must be above 0"),
        (lambda: LinUCB(rho="some"), "rho must be oracle, max-action or a positive number, not 'some'"),
        (lambda: LinPSRL(prior_var=0.0), "prior_var must be above 0"),
        (lambda: LinPSRL(noise_std=-0.1), "noise_std must be above 0"),
        (lambda: LinPSRL(inflation="1/wide"), "inflation must be a positive number, sqrt-d, or .* not '1/wide'"),
        (lambda: LinPSRL(inflation="1/-1"), "inflation must be a positive number"),
        (lambda: LSVIBoltzmann(temperature=0.0), "temperature must be above 0"),
        (lambda: PSRL(prior_count=0.0), "prior_count must be above 0"),
    ],
)
def test_wrong_settings_are_refused_with_a_remedy(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_wrong_runs_are_refused() -> None:
    replicas = instances(Bandit(), 2)
    agent = LinUCB().make(replicas.known)
    with pytest.raises(ValueError, match="one entry for each of 2 replicas, not 3"):
        next(play(replicas, agent, range(3)))
    with pytest.raises(ValueError, match="episodes must be at least 1"):
        run(replicas, agent, 0, range(2))
