"""UCRL2 and UCBVI: optimism that holds what it promises, and pays."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from bdqn.linear import UCBVI, UCRL2, LSVIEpsilon, Replicas, play, run
from bdqn.linear.draws import Draws
from bdqn.linear.families import CombinationLock, DeepSea, RandomTabular, RiverSwim, instances
from bdqn.linear.recipes import Optimistic
from bdqn.linear.statistics import Episodes
from bdqn.linear.tabular import Counts, best_transitions, ucbvi, ucrl2
from support.linear import the_same

Array = NDArray[np.float64]


def optimistic(replicas: Replicas, settings: Optimistic, episodes: int) -> NDArray[np.bool_]:
    """Whether all planned values of a replica were above V*, at all steps and states of all episodes. (R,)"""
    v_star = replicas.q_star.max(-1)
    above = np.ones(len(replicas), bool)
    for played in islice(play(replicas, settings.make(replicas.known), range(len(replicas))), episodes):
        above &= (played.plan.q.max(-1) >= v_star - 1e-12).all((1, 2))
    return above


@pytest.mark.parametrize("agent", [UCBVI, UCRL2])
@pytest.mark.parametrize(("noise", "branching"), [(0.0, 2), (0.5, 2), (0.02, 4)])
def test_planned_values_are_above_the_true_ones(agent: type[Optimistic], noise: float, branching: int) -> None:
    """100 small MDPs, where rewards, and where transitions decide; delta = 0.1 promises 90."""
    replicas = instances(RandomTabular(states=4, horizon=3, noise=noise, branching=branching), 100)
    assert optimistic(replicas, agent(), 100).mean() >= 0.9
    assert optimistic(replicas, agent(scale=0.0), 100).mean() < 0.2  # or this has not been tested


def test_optimism_swims_up_the_river_and_epsilon_greedy_does_not() -> None:
    """The proven scale, 1, takes more episodes: experiments/linear_exploration."""
    replicas = the_same(RiverSwim().make(np.random.default_rng(0)), 5)
    lost = [
        run(replicas, agent.make(replicas.known), 400, range(5)).exact.sum(1)
        for agent in (UCBVI(scale=0.1), UCRL2(scale=0.1), LSVIEpsilon())
    ]
    *ours, epsilon_greedy = lost
    for regret in ours:
        assert regret.max() < 0.75 * epsilon_greedy.mean()


@pytest.mark.parametrize("settings", [UCBVI(), UCRL2(scale=0.1)])
@pytest.mark.parametrize("family", [CombinationLock(horizon=6), DeepSea(size=8)])
def test_optimism_finds_the_one_path_that_pays(settings: Optimistic, family: CombinationLock | DeepSea) -> None:
    replicas = instances(family, 5)
    returns = run(replicas, settings.make(replicas.known), 150, range(5)).returns
    assert (returns[:, -20:] > 0.9).all()


def test_the_best_plausible_transitions_solve_a_linear_program() -> None:
    """max q . v over probabilities q with |q - p|_1 <= radius; the 1-norm by q - p = up - down."""
    rng = np.random.default_rng(0)
    states = 5
    transitions = rng.dirichlet(np.full(states, 0.5), size=(3, states, 2))
    radius = rng.choice([0.0, 0.2, 1.0, 2.5], size=(3, states, 2))
    value = rng.random((3, states))
    found = best_transitions(transitions, radius, value)
    np.testing.assert_allclose(found.sum(-1), 1)
    for r, x, a in np.ndindex(radius.shape):
        p, v = transitions[r, x, a], value[r]
        solved = linprog(
            np.concatenate([-v, v]),  # of up and down
            A_ub=[*np.concatenate([-np.eye(states), np.eye(states)], axis=1), np.ones(2 * states)],
            b_ub=[*p, radius[r, x, a]],
            A_eq=[np.concatenate([np.ones(states), -np.ones(states)])],
            b_eq=[0.0],
        )
        assert found[r, x, a] @ v == pytest.approx(p @ v - solved.fun, abs=1e-9)
        assert np.abs(found[r, x, a] - p).sum() <= radius[r, x, a] + 1e-12
        assert (found[r, x, a] >= 0).all()


def test_ucrl2_that_is_sure_of_transitions_is_ucbvi() -> None:
    replicas = instances(RandomTabular(), 3)
    agent = UCBVI().make(replicas.known)
    for _ in islice(play(replicas, agent, range(3)), 30):
        pass
    bonus = UCBVI().radius(replicas.known, 0.3, 0.0)
    draws = Draws(range(3), "agent")
    sure = ucrl2(0.9, bonus, np.zeros_like)(agent.counts, draws)
    np.testing.assert_allclose(sure, ucbvi(0.9, bonus)(agent.counts, draws), atol=1e-12)


def test_radii_by_hand() -> None:
    """Three visits to one of H S A = 3 * 5 * 2 = 30 cells, delta = 0.1."""
    known = instances(RandomTabular(), 1).known
    radius = Optimistic(delta=0.1, scale=0.5).radius(known, 0.3, np.log(2))
    assert radius(np.array([0.0, 3.0])).tolist() == pytest.approx(
        [1.0, 0.5 * 0.3 * np.sqrt(2 * np.log(2 * 30 * 3 * 4 / 0.1) / 3)]
    )


def test_counts_by_hand() -> None:
    counts = Counts(instances(RandomTabular(states=2, horizon=2), 1).known)
    for after, reward in ((1, 0.5), (1, 0.1), (0, 0.0)):
        counts.add(Episodes(np.array([[0, after]]), np.array([[1, 0]]), np.array([[reward, 1.0]])))
    assert counts.visits[0, 0].tolist() == [[0, 3], [0, 0]]
    assert counts.visits[0, 1].tolist() == [[1, 0], [2, 0]]
    np.testing.assert_allclose(counts.rewards[0, 0], [[0, 0.2], [0, 0]])
    np.testing.assert_allclose(counts.frequencies[0, 0, 0], [[0.5, 0.5], [1 / 3, 2 / 3]])
