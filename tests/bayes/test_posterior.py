"""The belief against dense and textbook formulas, and its own claims of certainty.

Hostile data, against high precision: tests/reliability/test_r12_hostile_grams.py.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from bdqn.bayes.noise import Fixed, InverseGamma
from bdqn.bayes.posterior import Moments, Posterior, Prior, fit
from bdqn.bayes.predictions import condition_number, predictive_std, sample_values

stable = settings(deadline=None, derandomize=True, max_examples=60)
seeds = st.integers(0, 2**32 - 1)


def rows(rng: np.random.Generator, count: int, dim: int, condition: float) -> np.ndarray:
    """Rows whose Gram has eigenvalues spread evenly, in decades, from 1 to ``condition``."""
    left = np.linalg.qr(rng.standard_normal((count, dim)))[0]
    right = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return (left * np.sqrt(np.geomspace(1, condition, dim))) @ right.T


def moments_of(x: np.ndarray, y: np.ndarray) -> Moments:
    return Moments.zero(x.shape[-1], x.shape[:-2]).add(x, y)


# --- the formulas ---------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [1, 1e2, 1e4])
@pytest.mark.parametrize("centred", [True, False])
def test_fixed_noise_agrees_with_the_dense_formulas(condition: float, centred: bool) -> None:
    rng = np.random.default_rng(0)
    x = rows(rng, 40, 6, condition)
    y = x @ rng.standard_normal(6) + rng.standard_normal(40)
    noise_var, prior_var = 0.5, 2.0
    prior_mean = np.zeros(6) if centred else rng.standard_normal(6)

    cov = np.linalg.inv(x.T @ x / noise_var + np.eye(6) / prior_var)
    mean = cov @ (x.T @ y / noise_var + prior_mean / prior_var)

    posterior = fit(moments_of(x, y), Prior(prior_var, Fixed(noise_var), prior_mean))
    at = rng.standard_normal((5, 6))
    variance = np.einsum("ni,ij,nj->n", at, cov, at)
    assert_allclose(posterior.mean, mean, rtol=1e-10)
    assert_allclose(posterior.std(at), np.sqrt(variance), rtol=1e-10)
    assert_allclose(predictive_std(posterior, at), np.sqrt(variance + noise_var), rtol=1e-10)


@pytest.mark.parametrize("prior_mean", [0.0, 3.0, np.array([1.0, -2.0, 0.5])])
def test_inverse_gamma_noise_agrees_with_the_textbook(prior_mean: float | np.ndarray) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((20, 3))
    y = x @ np.array([1.0, 2.0, -1.0]) + 0.3 * rng.standard_normal(20)
    m_0, v_0, a_0, b_0 = np.broadcast_to(prior_mean, 3), 4.0 * np.eye(3), 3.0, 0.7

    v_n = np.linalg.inv(np.linalg.inv(v_0) + x.T @ x)
    m_n = v_n @ (np.linalg.inv(v_0) @ m_0 + x.T @ y)
    a_n = a_0 + len(y) / 2
    b_n = b_0 + (y @ y + m_0 @ np.linalg.inv(v_0) @ m_0 - m_n @ np.linalg.inv(v_n) @ m_n) / 2

    posterior = fit(moments_of(x, y), Prior(4.0, InverseGamma(a_0, b_0), prior_mean))
    at = rng.standard_normal((5, 3))
    variance = np.einsum("ni,ij,nj->n", at, v_n, at) * b_n / (a_n - 1)
    assert_allclose(posterior.mean, m_n, rtol=1e-10)
    assert_allclose(posterior.noise_shape, a_n, rtol=1e-12)
    assert_allclose(posterior.noise_var * (posterior.noise_shape - 1), b_n, rtol=1e-10)
    assert_allclose(posterior.std(at), np.sqrt(variance), rtol=1e-10)
    assert_allclose(predictive_std(posterior, at), np.sqrt(variance + b_n / (a_n - 1)), rtol=1e-10)


def test_without_data_the_posterior_is_the_prior() -> None:
    posterior = fit(Moments.zero(2, (3,)), Prior(4.0, Fixed(0.5), np.array([1.0, -1.0])))
    assert_allclose(posterior.mean, [[1, -1]] * 3)
    assert_allclose(posterior.std([[3.0, 4.0]]), [[10.0]] * 3)  # 5 units away, 2 per unit


@stable
@given(seed=seeds, cuts=st.lists(st.integers(0, 30), max_size=5))
def test_data_in_pieces_give_the_same_belief_as_all_at_once(seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    pieces = Moments.zero(4)
    for part_x, part_y in zip(np.split(x, sorted(cuts)), np.split(y, sorted(cuts)), strict=True):
        pieces = pieces.add(part_x, part_y)
    prior = Prior(1.0, InverseGamma())
    one, many = fit(moments_of(x, y), prior), fit(pieces, prior)
    for name, value in one.state().items():
        assert_allclose(many.state()[name], value, rtol=1e-10, atol=1e-12, err_msg=name)


def test_rows_by_action_are_each_actions_own_regression() -> None:
    rng = np.random.default_rng(2)
    x, y, actions = rng.standard_normal((50, 3)), rng.standard_normal(50), rng.integers(3, size=50)
    moments = Moments.zero(3, (4,))  # the fourth action is never taken
    moments.add_by_action(x[:20], actions[:20], y[:20])
    moments.add_by_action(x[20:], actions[20:], y[20:])
    belief = fit(moments, Prior(1.0, InverseGamma()))
    for action in range(4):
        own = actions == action
        alone = fit(Moments.zero(3).add(x[own], y[own]), Prior(1.0, InverseGamma()))
        for name, value in alone.state().items():
            assert_allclose(belief.state()[name][action], value, rtol=1e-10, atol=1e-12, err_msg=name)
    assert moments.count.tolist() == [(actions == a).sum() for a in range(4)]


@stable
@given(seed=seeds, unit=st.floats(1e-3, 1e3))
def test_the_belief_has_the_unit_of_the_rewards(seed: int, unit: float) -> None:
    rng = np.random.default_rng(seed)
    x, y, at = rng.standard_normal((15, 3)), rng.standard_normal(15), rng.standard_normal((4, 3))
    plain = fit(moments_of(x, y), Prior(1.0, InverseGamma(2.0, 0.1)))
    scaled = fit(moments_of(x, unit * y), Prior(1.0, InverseGamma(2.0, 0.1 * unit**2)))
    assert_allclose(scaled.mean, unit * plain.mean, rtol=1e-9)
    assert_allclose(scaled.std(at), unit * plain.std(at), rtol=1e-9)
    assert_allclose(predictive_std(scaled, at), unit * predictive_std(plain, at), rtol=1e-9)


def test_more_data_remove_the_epistemic_part_and_leave_the_noise() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((100_000, 3))
    y = x @ np.ones(3) + 2.0 * rng.standard_normal(len(x))
    at = np.eye(3)
    few, many = (fit(moments_of(x[:n], y[:n]), Prior(1.0, InverseGamma())) for n in (100, len(x)))
    assert_allclose(many.std(at), 2.0 / np.sqrt(len(x)), rtol=0.02)
    assert_allclose(predictive_std(many, at), 2.0, rtol=0.02)
    assert (few.std(at) > 10 * many.std(at)).all()


def test_condition_number() -> None:
    gram = np.stack([np.diag([198.0, 0.0]), np.zeros((2, 2))])
    posterior = fit(Moments(gram, np.zeros((2, 2)), np.zeros(2), np.zeros(2)), Prior(0.5))  # a ridge of 2
    assert_allclose(condition_number(posterior), [100.0, 1.0])


# --- how sure it is -------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [Fixed(0.5), InverseGamma(2.0, 1.0)])
def test_credible_intervals_cover_the_truth(noise: Fixed | InverseGamma) -> None:
    """Of 1000 worlds drawn from the prior, the 90 % interval of x . w holds the truth in about 900."""
    rng = np.random.default_rng(4)
    worlds, count, dim, prior_var = 1000, 6, 4, 2.0
    if isinstance(noise, Fixed):
        noise_var, tie = np.full(worlds, noise.var), 1.0
    else:
        noise_var = tie = noise.scale / rng.standard_gamma(noise.shape, worlds)
    w = rng.standard_normal((worlds, dim)) * np.sqrt(prior_var * np.broadcast_to(tie, worlds))[:, None]
    x = rng.standard_normal((worlds, count, dim))
    errors = rng.standard_normal((worlds, count)) * np.sqrt(noise_var)[:, None]
    y = np.einsum("wnd,wd->wn", x, w) + errors
    posterior = fit(moments_of(x, y), Prior(prior_var, noise))

    at = rng.standard_normal((1, dim))
    scale = posterior.std(at)[:, 0]
    half = stats.norm.ppf(0.95) * scale
    if isinstance(noise, InverseGamma):  # Student-t; its scale is the standard deviation less the tails' part
        shape = posterior.noise_shape
        half = stats.t.ppf(0.95, 2 * shape) * scale * np.sqrt((shape - 1) / shape)
    covered = np.abs((w - posterior.mean) @ at[0]) < half
    assert 0.875 < covered.mean() < 0.925


@pytest.mark.parametrize("temperature", [1.0, 0.25])
@pytest.mark.parametrize("noise", [Fixed(0.5), InverseGamma(6.0, 2.0)])
def test_draws_have_the_posteriors_mean_and_covariance(temperature: float, noise: Fixed | InverseGamma) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 5))
    posterior = fit(moments_of(x, y), Prior(1.0, noise, mean=1.0))
    draws = posterior.sample(rng, 100_000, temperature)
    assert draws.shape == (100_000, 2, 3)
    assert posterior.sample(rng).shape == (2, 3)
    for action in range(2):
        precision = x[action].T @ x[action] + Prior(1.0, noise).ridge * np.eye(3)
        covariance = temperature * posterior.noise_var[action] * np.linalg.inv(precision)
        spread = np.sqrt(np.diag(covariance))
        assert_allclose(draws[:, action].mean(0), posterior.mean[action], atol=0.02 * spread.max())
        assert_allclose(np.cov(draws[:, action].T), covariance, atol=0.03 * covariance.max())


@pytest.mark.parametrize("count", [2, 30])  # fewer regressions than weights, and more: solved by different routines
def test_regressions_of_a_batch_are_each_their_own(count: int) -> None:
    """Mean, draws from given numbers, and widths at rows that differ between regressions."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((count, 20, 5)), rng.standard_normal((count, 20))
    new, z = rng.standard_normal((count, 7, 5)), rng.standard_normal((count, 5))
    batch = fit(Moments.zero(5, (count,)).add(x, y), Prior(0.5, Fixed(0.2)))
    for i in range(count):
        alone = fit(Moments.zero(5).add(x[i], y[i]), Prior(0.5, Fixed(0.2)))
        assert_allclose(batch.mean[i], alone.mean, rtol=1e-12)
        assert_allclose(batch.std(new)[i], alone.std(new[i]), rtol=1e-12)
        assert_allclose(batch.at(z)[i], alone.at(z[i]), rtol=1e-12)
    assert_allclose(batch.at(np.zeros((count, 5))), batch.mean)


def test_at_temperature_zero_every_draw_is_the_mean() -> None:
    posterior = fit(Moments.zero(3, (2,)), Prior(mean=1.5))
    assert_array_equal(posterior.sample(np.random.default_rng(0), 7, temperature=0.0), np.full((7, 2, 3), 1.5))


@pytest.mark.parametrize("noise", [Fixed(0.5), InverseGamma(1.5, 1.0)])
def test_values_drawn_at_rows_are_distributed_as_rows_times_drawn_weights(
    noise: Fixed | InverseGamma,
) -> None:
    rng = np.random.default_rng(6)
    posterior = fit(Moments.zero(3).add(rng.standard_normal((1, 3)), [1.0]), Prior(2.0, noise))
    at = rng.standard_normal((2, 3))
    shape = posterior.noise_shape
    if np.isinf(shape):
        exact = stats.norm(posterior.mean @ at.T, posterior.std(at))
    else:  # one noise variance per draw, shared by all weights, makes x . w a Student-t
        exact = stats.t(2 * shape, posterior.mean @ at.T, posterior.std(at) * np.sqrt((shape - 1) / shape))
    for values in (sample_values(posterior, at, rng, 50_000), posterior.sample(rng, 50_000) @ at.T):
        assert values.shape == (50_000, 2)
        uniform = exact.cdf(values)
        for row in range(2):
            assert stats.kstest(uniform[:, row], "uniform").pvalue > 0.01


def test_a_restored_posterior_draws_the_same() -> None:
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((2, 9, 3)), rng.standard_normal((2, 9))
    posterior = fit(moments_of(x, y), Prior(1.0, InverseGamma()))
    restored = Posterior.from_state(posterior.state())
    draws = [p.sample(np.random.default_rng(1), 4) for p in (posterior, restored)]
    assert_array_equal(*draws)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_impossible_priors_are_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match="prior_var"):
        Prior(value)
    with pytest.raises(ValueError, match="noise_var"):
        Fixed(value)
    with pytest.raises(ValueError, match="noise_scale"):
        InverseGamma(2.0, value)
    with pytest.raises(ValueError, match="noise_shape"):
        InverseGamma(min(value, 1.0))
    with pytest.raises(ValueError, match="prior mean"):
        Prior(mean=np.array([0.0, np.inf]))
