"""How regret and time grow: the claims of docs/theory.md, measured. About ten minutes: pytest -m long."""

from __future__ import annotations

import time
from itertools import islice

import numpy as np
import pytest

from bdqn.linear import LinPSRL, LinUCB, LSVIEpsilon, play, run
from bdqn.linear.families import Bandit, DeepSea, LinearQ, instances
from bdqn.report.regret import growth
from support.linear import the_same

pytestmark = pytest.mark.long


@pytest.mark.parametrize("settings", [LinPSRL(), LinUCB(), LinUCB(radius="data")], ids=str)
@pytest.mark.parametrize("horizon", [1, 2])
def test_regret_grows_more_slowly_than_time(horizon: int, settings: LinPSRL | LinUCB) -> None:
    """The upper 95 % end of the exponent, between T / 10 and T, stays below 0.9."""
    replicas = instances(LinearQ(horizon=horizon), 20)
    curves = run(replicas, settings.make(replicas.known), 3000, range(20))
    fitted = growth(np.arange(1, 3001), curves.exact.cumsum(1), np.random.default_rng(0))
    assert fitted.high < 0.9


def test_the_certificate_grows_as_the_theorem_says() -> None:
    """H = 1: slope of the certificate between T = 10^3 and 10^5 at most 0.6 (1/2 and a logarithm); regret below it."""
    replicas = instances(Bandit(dim=4), 5)
    curves = run(replicas, LinUCB().make(replicas.known), 100_000, range(5))
    assert curves.certificate is not None
    certificate, regret = curves.certificate.cumsum(1).mean(0), curves.exact.cumsum(1).mean(0)
    grid = np.unique(np.geomspace(1000, 100_000, 30).astype(int))
    slope = np.polyfit(np.log(grid), np.log(certificate[grid - 1]), 1)[0]
    assert 0.4 < slope <= 0.6
    assert (regret <= certificate).all()
    assert np.polyfit(np.log(grid), np.log(regret[grid - 1]), 1)[0] <= 0.6


def test_the_certificate_grows_about_linearly_in_d() -> None:
    dims = np.array([2, 4, 8, 16])
    totals = []
    for dim in dims:
        replicas = instances(Bandit(dim=int(dim), actions=50, states=20), 5)
        curves = run(replicas, LinUCB(ridge=1e-3).make(replicas.known), 3000, range(5))
        assert curves.certificate is not None
        totals.append(curves.certificate.sum(1).mean())
    slope = np.polyfit(np.log(dims), np.log(totals), 1)[0]
    assert 0.75 < slope < 1.1


@pytest.mark.parametrize(("size", "episodes", "needed"), [(10, 500, 20), (20, 2000, 18)])
def test_sampling_solves_deep_sea(size: int, episodes: int, needed: int) -> None:
    """Solved: the treasure in at least 90 of the last 100 episodes."""
    replicas = the_same(DeepSea(size=size).make(np.random.default_rng(0)), 20)
    returns = run(replicas, LinPSRL().make(replicas.known), episodes, range(20)).returns
    assert ((returns[:, -100:] > 0.5).mean(1) >= 0.9).sum() >= needed


def test_epsilon_greedy_does_not_solve_deep_sea_whatever_its_epsilon() -> None:
    replicas = the_same(DeepSea(size=10).make(np.random.default_rng(0)), 20)
    for epsilon in (0.05, 0.1, 0.3, 1.0):
        returns = run(replicas, LSVIEpsilon(epsilon=epsilon).make(replicas.known), 500, range(20)).returns
        assert ((returns[:, -100:] > 0.5).mean(1) >= 0.9).sum() == 0


def test_an_episode_costs_the_same_early_and_late() -> None:
    """Median processor time of an episode near t = 10^5 over near t = 10^3, two agents in turns.

    Who goes first alternates: on a busy machine whoever always comes second can be the one that is interrupted.
    """
    replicas = the_same(LinearQ().make(np.random.default_rng(0)), 1)
    early, late = (play(replicas, LinUCB().make(replicas.known), [0]) for _ in range(2))
    for episodes, number in ((early, 1_000), (late, 100_000)):
        next(islice(episodes, number, None))
    seconds = np.empty((2, 400))
    for turn in range(400):
        pair = list(zip(seconds, (early, late), strict=True))
        for row, episodes in pair if turn % 2 else reversed(pair):
            began = time.process_time()
            next(episodes)
            row[turn] = time.process_time() - began
    ratio = np.median(seconds[1]) / np.median(seconds[0])
    assert ratio <= 1.2, ratio


def test_twenty_seeds_of_two_thousand_episodes_take_seconds() -> None:
    replicas = instances(LinearQ(states=8, actions=3, dim=4, horizon=3), 20)
    for settings in (LinUCB(), LinPSRL()):
        began = time.process_time()
        run(replicas, settings.make(replicas.known), 2000, range(20))
        assert time.process_time() - began < 30
