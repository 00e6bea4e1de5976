"""Lemmas 3 and 4, measured: exponentials of the noise have expectation at most 1, and so rarely become large."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad

from bdqn.linear import LinPSRL, LSVIEpsilon, Replicas, play
from bdqn.linear.confidence import noise_radius
from bdqn.linear.families import Bandit, DeepSea, Family, LinearQ, RandomTabular, instances
from bdqn.linear.self_normalised import SelfNormalised, target_noise

Array = NDArray[np.float64]
COUNT, EPISODES = 2_000, 25


def logs(replicas: Replicas, alpha: Array, sigma: float | None = None) -> tuple[Array, Array]:
    """log M_t(alpha), and of the mixture, at the first step, under LinPSRL. (R, T) each"""
    process = SelfNormalised(replicas, sigma)
    agent = LinPSRL().make(replicas.known)
    plain, mixed = np.empty((2, len(replicas), EPISODES))
    for t, played in enumerate(islice(play(replicas, agent, range(len(replicas))), EPISODES)):
        process.add(played.episodes)
        plain[:, t], mixed[:, t] = process.log_exponential(alpha)[:, 0], process.log_mixture(1.0)[:, 0]
    return plain, mixed


def excess(values: Array) -> float:
    """How far a mean is above 1, in standard errors."""
    return float((values.mean() - 1) / (values.std() / np.sqrt(len(values))))


FAMILIES: dict[str, Family] = {
    "bandit": Bandit(states=3),
    "linear-q, H = 2": LinearQ(horizon=2),
    "random-tabular, H = 2": RandomTabular(horizon=2, noise=0.02),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_exponentials_expectation_is_at_most_one(family: str) -> None:
    """Lemma 3 at fixed times and at a stopping time; Gaussian noise of scale sigma makes it one exactly."""
    replicas = instances(FAMILIES[family], COUNT)
    dim = replicas.known.dim
    plain, mixed = logs(replicas, np.full(dim, 0.3 / np.sqrt(dim)))
    m = np.exp(plain)
    first = np.where((m >= 1.5).any(1), (m >= 1.5).argmax(1), EPISODES - 1)
    stopped = m[np.arange(COUNT), first]
    assert max(excess(m[:, t]) for t in (0, 9, EPISODES - 1)) < 4
    assert excess(stopped) < 4
    if family == "bandit":
        assert excess(m[:, 9]) > -4
    for delta in (0.5, 0.1):  # Lemma 4: at no time more than 1 / delta, but with probability delta
        assert (mixed.max(1) > np.log(1 / delta)).mean() <= delta


def test_with_too_small_a_sigma_both_lemmas_fail() -> None:
    """Guards the test above: it can tell."""
    replicas = instances(FAMILIES["bandit"], COUNT)
    plain, mixed = logs(replicas, np.full(4, 0.15), sigma=replicas.known.sigma / 2)
    assert excess(np.exp(plain[:, -1])) > 4
    assert (mixed.max(1) > np.log(10)).mean() > 0.1


def test_the_mixture_is_the_mean_of_exponentials() -> None:
    """d = 1: the closed form against an integral over alpha ~ N(0, 1 / ridge)."""
    replicas = instances(Bandit(dim=1, actions=2), 3)
    process = SelfNormalised(replicas)
    for played in islice(play(replicas, LSVIEpsilon().make(replicas.known), range(3)), 10):
        process.add(played.episodes)
    ridge = 0.7

    def weighted(alpha: float, replica: int) -> float:
        density = np.sqrt(ridge / (2 * np.pi)) * np.exp(-ridge * alpha**2 / 2)
        return float(density * np.exp(process.log_exponential(np.array([alpha]))[replica, 0]))

    for replica, log_mixture in enumerate(process.log_mixture(ridge)[:, 0]):
        assert np.exp(log_mixture) == pytest.approx(quad(weighted, -20, 20, args=(replica,))[0], rel=1e-6)


def test_lemma_4_is_the_noise_radius_of_the_sets() -> None:
    """|S| = sigma sqrt(2 log(1 / delta) + log det ratio), the radius without ridge, where the mixture is 1 / delta."""
    replicas = instances(Bandit(), 4)
    process = SelfNormalised(replicas)
    for played in islice(play(replicas, LinPSRL().make(replicas.known), range(4)), 10):
        process.add(played.episodes)
    chi_bar = process._gram[:, 0] + 2.0 * np.eye(4)
    sums = replicas.known.sigma * process._sums[:, 0]
    length = np.sqrt((sums * np.linalg.solve(chi_bar, sums[..., None])[..., 0]).sum(-1))
    ratio = np.linalg.slogdet(chi_bar)[1] - 4 * np.log(2.0)
    for replica, log_mixture in enumerate(process.log_mixture(2.0)[:, 0]):
        delta = np.exp(-log_mixture)
        radius = noise_radius(
            ratio[replica], sigma=replicas.known.sigma, ridge=2.0, weight_norm=0.0, horizon=1, delta=delta
        )
        assert radius == pytest.approx(length[replica])


def test_noise_has_no_mean_and_is_what_the_target_misses() -> None:
    replicas = instances(LinearQ(horizon=3, gamma=0.9), 200)
    agent = LSVIEpsilon(epsilon=1.0).make(replicas.known)
    noise = np.array([target_noise(replicas, p.episodes) for p in islice(play(replicas, agent, range(200)), 30)])
    assert (np.abs(noise.mean((0, 1))) < 4 * noise.std((0, 1)) / np.sqrt(6_000)).all()
    assert noise[..., -1].std() == pytest.approx(0.1, rel=0.05)  # the last step: the rewards' noise
    certain = instances(DeepSea(size=5), 10)
    agent = LSVIEpsilon(epsilon=1.0).make(certain.known)
    for played in islice(play(certain, agent, range(10)), 5):
        np.testing.assert_allclose(target_noise(certain, played.episodes), 0, atol=1e-12)
