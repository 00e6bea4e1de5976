"""Noise from residuals, priors over functions, and the resolution that data allow."""

from __future__ import annotations

import numpy as np
import pytest

from bdqn.bayes.empirical import ROUNDS, fit_by_evidence, fit_given_noise
from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Fixed, Moments, Prior, fit
from bdqn.bayes.resolution import KNOWN, resolution


def moments(scale: float = 1.0) -> Moments:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 300, 4))
    y = scale * (x @ np.array([1.0, -2.0, 0.0, 0.5]) + 0.1 * rng.standard_normal((2, 300)))
    return Moments.zero(4, (2,)).add(x, y)


def test_with_known_noise_and_one_variance_it_is_the_fixed_prior() -> None:
    ours, plain = fit_given_noise(moments(), np.full(4, 0.3), np.full(2, 3.0)), fit(moments(), Prior(0.3, Fixed(3.0)))
    assert ours.mean == pytest.approx(plain.mean, rel=1e-12)
    assert ours.factor == pytest.approx(plain.factor, rel=1e-12)


def test_each_weight_has_a_prior_variance_of_its_own() -> None:
    nothing = fit_given_noise(Moments.zero(2, (1,)), np.array([4.0, 0.25]), np.ones(1))
    assert nothing.std(np.eye(2)) == pytest.approx(np.array([[2.0, 0.5]]))


def test_noise_is_that_of_the_residuals_and_never_below_the_floor() -> None:
    assert np.sqrt(fit_by_evidence(moments(), np.ones(4), np.ones(4), 1e-9).noise_var) == pytest.approx(0.1, rel=0.1)
    assert (fit_by_evidence(moments(), np.ones(4), np.ones(4), 0.5).noise_var >= 0.5).all()


def test_noise_does_not_count_what_the_parameters_explain() -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((1, 60, 40)), rng.standard_normal((1, 60))
    wide = np.full(40, 100.0)
    found = fit_by_evidence(Moments.zero(40, (1,)).add(x, noise), wide, wide, 1e-9).noise_var
    assert found == pytest.approx(1.0, rel=0.5)  # residuals over rows alone would say a third of it


def test_a_prior_grows_as_the_data_ask_but_no_wider_than_allowed() -> None:
    data, narrow = moments(), np.full(4, 1e-4)
    tight, wider, some = (
        np.abs(fit_by_evidence(data, narrow, widest, 1e-9, np.full(2, 0.01)).mean)
        for widest in (narrow, np.full(4, 10.0), np.array([1e-4, 10.0, 10.0, 10.0]))
    )
    assert (tight[:, :2] < 0.1).all()
    assert wider[:, 1] == pytest.approx(2.0, rel=0.1)
    assert (some[:, 0] < 0.1).all()
    assert (some[:, 1] > 1).all()


def test_the_next_fit_begins_with_the_noise_of_the_last() -> None:
    one = np.ones(4)
    cold, warm = fit_by_evidence(moments(), one, one, 1e-9), fit_by_evidence(moments(), one, one, 1e-9, np.full(2, 1e6))
    assert (warm.noise_var > cold.noise_var).all()


def dense(data: Moments, prior_var: Array, widest: Array, least_noise: float) -> tuple[Array, Array, Array]:
    """The same with whole matrices and their inverses: means, covariances, and noise."""
    noise, var, free = np.maximum(data.squares / data.count, least_noise), prior_var, widest > prior_var
    for round_number in range(ROUNDS):
        inverse = np.linalg.inv(data.gram + (noise[:, None, None] / var) * np.eye(len(var)))
        mean = (inverse @ data.cross[..., None])[..., 0]
        if round_number == ROUNDS - 1:
            break
        decided = 1 - noise[:, None] * np.diagonal(inverse, axis1=1, axis2=2) / var
        residuals = data.squares - 2 * (mean * data.cross).sum(1) + np.einsum("ai,aij,aj->a", mean, data.gram, mean)
        noise = np.maximum((residuals + least_noise) / (data.count + 1 - decided.sum(1)), least_noise)
        weights = decided[:, free]
        wider = ((mean[:, free] ** 2 / prior_var[free]).sum() + weights.size) / (weights.sum() + weights.size)
        var = np.where(free, np.clip(wider * prior_var, prior_var, widest), prior_var)
    return mean, noise[:, None, None] * inverse, noise


def test_regressors_that_were_always_zero_stay_as_the_prior_has_them() -> None:
    known, places = moments(), np.array([0, 2, 3, 6])
    data = known.among(places, 7)
    assert data.seen.tolist() == [True, False, True, True, False, False, True]
    prior_var = np.array([1e-3, 1e-3, 0.5, 0.7, 0.5, 0.2, 2.0])
    widest = np.where(prior_var < 0.1, 10.0, prior_var)  # of two weights, one of them never seen
    ours = fit_by_evidence(data, prior_var, widest, 1e-6)
    mean, covariance, noise = dense(data, prior_var, widest, 1e-6)
    np.testing.assert_allclose(ours.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(ours.noise_var, noise, rtol=1e-9)
    np.testing.assert_allclose(ours.std(np.eye(7)), np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_unit_of_targets_does_not_matter(scale: float) -> None:
    plain, scaled = (
        fit_by_evidence(moments(unit), np.full(4, unit**2), np.full(4, unit**2), 1e-6 * unit**2)
        for unit in (1.0, scale)
    )
    assert scaled.mean == pytest.approx(scale * plain.mean, rel=1e-9)
    assert scaled.std(np.eye(4)) == pytest.approx(scale * plain.std(np.eye(4)), rel=1e-9)


def test_what_recurs_is_told_apart_and_what_does_not_is_generalised() -> None:
    rng = np.random.default_rng(0)
    places = np.eye(20)[rng.integers(20, size=600)]
    lengthscale, novelty = resolution(places[:500], places[500:], 0.5)
    assert lengthscale == 0.5
    assert novelty < 0.01
    screens = rng.standard_normal((600, 2000))
    lengthscale, novelty = resolution(screens[:500], screens[500:], 0.5)
    assert lengthscale == 128.0  # twice the distance between any two of them
    assert novelty <= KNOWN
