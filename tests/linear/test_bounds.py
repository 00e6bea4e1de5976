"""The theorems' bounds against brute force, a table, and what must hold of any bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdqn.linear import LinUCB, Replicas, play
from bdqn.linear.bounds import Constants, Version, beta, determinant_term, rho_bar, theorem_1, theorem_2
from bdqn.linear.families import LinearQ, instances
from bdqn.linear.mdps import MDP
from support.linear import linear_agent

CONSTANTS = Constants(dim=4, horizon=3, sigma=0.5)


@given(
    rho=st.lists(st.floats(0, 5), min_size=1, max_size=6),
    gamma=st.floats(0, 1),
)
@settings(max_examples=50, deadline=None)
def test_rho_bar_is_the_papers_display(rho: list[float], gamma: float) -> None:
    """sum_i gamma^{2(H-i)} (1 + sum_{j=2}^i gamma^{j-1} prod_{k=1}^{j-1} rho^{H-(i-k)+1})^2, term by term."""
    horizon = len(rho)
    for version, factor in (("printed", 1), ("corrected", 2)):
        total = 0.0
        for i in range(1, horizon + 1):
            inner = 1.0
            for j in range(2, i + 1):
                product = 1.0
                for k in range(1, j):
                    product *= factor * rho[horizon - (i - k) + 1 - 1]
                inner += gamma ** (j - 1) * product
            total += gamma ** (2 * (horizon - i)) * inner**2
        version_: Version = version  # type: ignore[assignment]
        assert rho_bar(np.array(rho), gamma, version_) == pytest.approx(total)


def test_rho_bar_at_its_ends() -> None:
    assert rho_bar(np.array([7.0]), 1.0) == 1  # H = 1
    assert rho_bar(np.array([7.0, 3.0, 2.0]), 0.0) == 1  # gamma = 0
    assert rho_bar(np.array([0.0, 2.0]), 1.0, "printed") == 1 + 3**2
    assert rho_bar(np.array([0.0, 2.0]), 1.0, "corrected") == 1 + 5**2


def test_the_corrected_bound_by_hand_and_where_it_says_anything() -> None:
    """d = 4, sigma = 1/2, lambda = L = L_omega = 1, rho = sqrt(d), delta = 1/T. Regret T is trivial."""

    def bound_over_t(horizon: int, episodes: int) -> float:
        constants = replace(CONSTANTS, horizon=horizon)
        return float(theorem_2(constants, np.full(horizon, 2.0), episodes, 1 / episodes)) / episodes

    determinant = 4 * np.log(1 + 1000 / 4)
    radius = 0.5 * np.sqrt(2 * np.log(1000) + determinant) + 1
    assert bound_over_t(1, 1000) == pytest.approx(2 * radius * np.sqrt(2 * 1000 * determinant) / 1000)
    radius = 0.5 * np.sqrt(2 * np.log(2 * 1000) + determinant) + 1
    assert bound_over_t(2, 1000) == pytest.approx(2 * radius * np.sqrt(2 * 26 * 1000 * 2 * determinant) / 1000)
    assert bound_over_t(1, 10_000) < 1 < bound_over_t(1, 1000)
    assert bound_over_t(2, 10**6) < 1 < bound_over_t(2, 10_000)
    assert bound_over_t(3, 10**6) > 1


def test_the_printed_bound_is_the_printed_formula() -> None:
    c = Constants(dim=4, horizon=2, sigma=0.3, ridge=0.5, feature_norm=1.4, weight_norm=0.8, gamma=0.9)
    rho = np.array([0.0, 1.5])
    radius = 0.3 * np.sqrt(2 * np.log(100) + 4 * np.log(1 + 100 * 1.96 / 0.5)) + np.sqrt(0.5) * 0.8
    by_hand = 2 * radius * np.sqrt(2 * (0.81 + (1 + 0.9 * 1.5) ** 2) * 100 * 2 * 4 * np.log(0.5 + 100 * 1.96 / 4))
    assert theorem_2(c, rho, 100, 0.01, "printed") == pytest.approx(by_hand)
    assert theorem_1(c, rho, 100, "printed") == pytest.approx(by_hand + 1)


@pytest.mark.parametrize(("ridge", "dim", "episodes"), [(0.1, 1, 1), (0.01, 10, 1000)])
def test_the_printed_determinant_lemma_fails_for_small_ridges(ridge: float, dim: int, episodes: int) -> None:
    """E6: with features e_1, .., e_d in turn, the sum is known; the corrected term bounds it, the printed does not."""
    precision = np.full(dim, ridge)
    total = 0.0
    for t in range(episodes):
        total += np.log1p(1 / precision[t % dim])
        precision[t % dim] += 1
    constants = Constants(dim=dim, horizon=1, sigma=1.0, ridge=ridge)
    assert determinant_term(constants, episodes, "printed") < total - 1
    assert total <= determinant_term(constants, episodes) + 1e-9
    assert beta(constants, episodes, 0.1) > beta(replace(constants, ridge=1.0), episodes, 0.1) - 1  # finite, of use


@given(
    dim=st.integers(1, 8),
    horizon=st.integers(1, 5),
    rho=st.floats(0.1, 4),
    episodes=st.integers(10, 10**6),
    ridge=st.floats(0.01, 10),
)
@settings(max_examples=40, deadline=None)
def test_bounds_grow_with_everything(dim: int, horizon: int, rho: float, episodes: int, ridge: float) -> None:
    constants = Constants(dim=dim, horizon=horizon, sigma=0.5, ridge=ridge)

    def bound(horizon: int = horizon, rho: float = rho, episodes: int = episodes, **changes: Any) -> float:
        changed = replace(constants, horizon=horizon, **changes)
        return float(theorem_2(changed, np.full(horizon, rho), episodes, 0.1))

    assert bound() < bound(horizon=horizon + 1)
    assert bound() <= bound(rho=rho + 1)
    assert bound() < bound(episodes=episodes + 1)
    assert bound() < bound(dim=dim + 1)
    assert theorem_2(constants, np.full(horizon, rho), episodes, 0.1, "corrected") > 0


def scaled(mdp: MDP, by: float) -> MDP:
    return replace(mdp, features=mdp.features * by)


def test_units_of_features_do_not_matter() -> None:
    """phi c, omega / c and lambda c^2 are the same problem: same actions, same radii, same bound."""
    plain = instances(LinearQ(horizon=2), 4)
    other = Replicas.of([scaled(mdp, 10.0) for mdp in plain.mdps])
    agents = linear_agent(LinUCB(ridge=1.0), plain), linear_agent(LinUCB(ridge=100.0), other)
    runs = [play(replicas, agent, range(4)) for replicas, agent in zip((plain, other), agents, strict=True)]
    for _, one, two in zip(range(60), *runs, strict=False):
        assert (one.episodes.actions == two.episodes.actions).all()
        for a, b in zip(one.plan.sets, two.plan.sets, strict=True):
            np.testing.assert_allclose(a.theta, b.theta)
    rho = agents[0].confidence.largest_rho  # type: ignore[union-attr]
    bounds = [
        theorem_2(Constants.of(replicas.known, ridge), rho, 60, 0.1)
        for replicas, ridge in ((plain, 1.0), (other, 100.0))
    ]
    np.testing.assert_allclose(*bounds)
