"""The posterior is right where regressions go wrong, or it is refused: never a silent guess.

Features that are dead, alike, duplicated or of very different sizes, and 0, 1 or few samples: against a reference of
60 digits the relative error is at most 100 eps times the condition number of the precision, up to 1e12. The exact
answer itself changes by a few eps times the condition number when the last digit of the data does, so the order of
this bound cannot be improved in float64. Beyond, where the ridge is lost in rounding, the fit is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor, nn

import bdqn
from bdqn.bayes.noise import Fixed, InverseGamma
from bdqn.bayes.numerics import PosteriorError
from bdqn.bayes.posterior import Moments, Posterior, Prior, fit
from bdqn.bayes.predictions import condition_number
from support.faulty import Faulty

Array = np.ndarray
EPS = np.finfo(np.float64).eps
BOUND = 100  # eps times the condition number


def _spread_out(x: Array, condition: float) -> Array:
    """Rows with other singular values: such that the Gram matrix has this condition number."""
    left, _, right = np.linalg.svd(x, full_matrices=False)
    return (left * np.sqrt(np.geomspace(condition, 1, len(right)))) @ right


# Rows of this many features; 3 samples for each feature unless the name says otherwise.
KINDS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "no sample": lambda rng, dim: np.zeros((0, dim)),
    "one sample": lambda rng, dim: rng.standard_normal((1, dim)),
    "one sample, 40 times": lambda rng, dim: np.repeat(rng.standard_normal((1, dim)), 40, axis=0),
    "fewer samples than features": lambda rng, dim: rng.standard_normal((dim // 2, dim)),
    "rank-deficient": lambda rng, dim: rng.standard_normal((3 * dim, dim // 3)) @ rng.standard_normal((dim // 3, dim)),
    "dead features": lambda rng, dim: rng.standard_normal((3 * dim, dim)) * (rng.permutation(dim) < dim // 2),
    "only dead features": lambda rng, dim: np.zeros((3 * dim, dim)),
    "duplicate features": lambda rng, dim: rng.standard_normal((3 * dim, dim))[:, np.arange(dim) // 2],
    "features that are almost alike": lambda rng, dim: (
        rng.standard_normal((3 * dim, 1)) + 1e-5 * rng.standard_normal((3 * dim, dim))
    ),
    "features of very different sizes": lambda rng, dim: (
        rng.standard_normal((3 * dim, dim)) * 10 ** rng.uniform(-4, 4, dim)
    ),
    "variances over twelve decades": lambda rng, dim: _spread_out(rng.standard_normal((3 * dim, dim)), 1e12),
}
HARDEST = ("rank-deficient", "duplicate features", "variances over twelve decades")


@dataclass(frozen=True)
class Problem:
    """Rows, targets and a ridge; ``condition`` is the condition number of the precision."""

    x: Array
    y: Array
    ridge: float
    condition: float

    @classmethod
    def random(
        cls, kind: str, rng: np.random.Generator, dim: int, decades: float, ridge: float, noise: float
    ) -> Problem:
        """A condition number of 10**decades at most, and targets that the features explain but for this much noise."""
        x = KINDS[kind](rng, dim)
        if x.any():
            x = x * np.sqrt(ridge * 10**decades) / np.linalg.norm(x, 2)
        explained = x @ rng.standard_normal(dim)
        y = explained + noise * np.linalg.norm(explained) / np.sqrt(max(len(x), 1)) * rng.standard_normal(len(x))
        variances = np.zeros(dim)
        variances[: min(x.shape)] = np.linalg.svd(x, compute_uv=False) ** 2
        return cls(x, y, ridge, (variances.max() + ridge) / (variances.min() + ridge))


@dataclass(frozen=True)
class Exact:
    """The answer, computed with 60 digits."""

    mean: Array
    inverse: Array  # of the precision: the covariance per unit of noise
    std: Array  # at some rows, per unit of noise
    squares: float  # y'y less what the regularised fit explains of it

    @classmethod
    def of(cls, problem: Problem, at: Array) -> Exact:
        with mpmath.workdps(60):
            exactly = np.vectorize(mpmath.mpf, otypes=[object])
            x, y = (exactly(a) if a.size else a.astype(object) for a in (problem.x, problem.y))
            precision = x.T @ x + mpmath.mpf(problem.ridge) * np.eye(x.shape[1], dtype=int)
            inverse = np.array((mpmath.matrix(precision.tolist()) ** -1).tolist())
            mean = inverse @ (x.T @ y)
            std = [mpmath.sqrt(row @ inverse @ row) for row in exactly(at)]
            return cls(mean.astype(float), inverse.astype(float), np.array(std, float), float(y @ y - mean @ (x.T @ y)))


class Basis:
    """In place of a generator: the i-th draw gets the i-th unit vector, so that draws show the map behind them."""

    def standard_normal(self, shape: tuple[int, ...]) -> Array:
        return np.eye(shape[-1])


def belief(problem: Problem, noise: Fixed | InverseGamma) -> Posterior:
    """As an agent fits it: one of three actions, beside an easy one and one that was never taken."""
    dim = problem.x.shape[1]
    moments = Moments.zero(dim, (3,))
    moments.add_by_action(problem.x, np.full(len(problem.x), 1), problem.y)
    moments.add_by_action(np.eye(dim), np.zeros(dim, np.int64), np.ones(dim))
    prior_var = noise.var / problem.ridge if isinstance(noise, Fixed) else 1 / problem.ridge
    of_all = fit(moments, Prior(prior_var, noise))
    return Posterior.from_state({name: value[1] for name, value in of_all.state().items()})


def relative_errors(problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """How far off each part of the belief is, in eps times the condition number."""
    dim = problem.x.shape[1]
    at = np.vstack([np.eye(dim)[:8], rng.standard_normal((4, dim))])
    exact = Exact.of(problem, at)
    known, learned = belief(problem, Fixed(0.7)), belief(problem, InverseGamma(2.0, 1.0))
    size = np.linalg.norm(exact.mean) or 1.0  # where nothing was seen the mean is zero, and must be so exactly
    spread = replace(known, mean=np.zeros(dim)).sample(Basis(), dim) / np.sqrt(known.noise_var)  # type: ignore[arg-type]
    # The learned noise is a difference of sums of squares: it can be no finer than what is subtracted.
    scale = 1 + exact.squares / 2
    finest = scale + problem.y @ problem.y + problem.condition * problem.ridge * exact.mean @ exact.mean
    errors: dict[str, Any] = {
        "mean": np.linalg.norm(known.mean - exact.mean) / size,
        "mean (learned noise)": np.linalg.norm(learned.mean - exact.mean) / size,
        "std": (np.abs(known.std(at) / np.sqrt(known.noise_var) - exact.std) / exact.std).max(),
        "std (learned noise)": (np.abs(learned.std(at) / np.sqrt(learned.noise_var) - exact.std) / exact.std).max(),
        "covariance of draws": np.linalg.norm(spread.T @ spread - exact.inverse) / np.linalg.norm(exact.inverse),
        "learned noise": problem.condition * abs(learned.noise_var * (learned.noise_shape - 1) - scale) / finest,
    }
    assert (
        learned.noise_var * (learned.noise_shape - 1) >= 1 - 4 * EPS
    )  # its prior's, but for rounding: data only add to it
    return {name: float(error) / (EPS * problem.condition) for name, error in errors.items()}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, derandomize=True, max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.integers(3, 7),
    decades=st.floats(0, 12),
    ridge_decades=st.floats(-6, 6),
    noise=st.floats(0, 1),
)
def test_hostile_grams_lose_no_more_digits_than_their_condition_number(
    kind: str, seed: int, dim: int, decades: float, ridge_decades: float, noise: float
) -> None:
    rng = np.random.default_rng(seed)
    problem = Problem.random(kind, rng, dim, decades, 10.0**ridge_decades, noise)
    for part, error in relative_errors(problem, rng).items():
        assert error <= BOUND, part


@pytest.mark.parametrize("kind", HARDEST)
def test_the_problems_are_as_hard_as_they_say(kind: str) -> None:
    """Guards the test above: its bound grows with the condition number, so that must not be larger than it is."""
    problem = Problem.random(kind, np.random.default_rng(0), 6, 12.0, 1.0, 0.1)
    exact = Exact.of(problem, np.eye(6))
    precision = problem.x.T @ problem.x + np.eye(6)
    assert 1e11 < problem.condition < 1.1e12
    assert_allclose(problem.condition, np.linalg.norm(precision, 2) * np.linalg.norm(exact.inverse, 2), rtol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("dim", "trials", "kinds"),
    [(6, 100, KINDS), (24, 4, KINDS), (129, 1, HARDEST)],  # 129: the regression of the default preset
)
def test_hostile_grams_at_length(dim: int, trials: int, kinds: Iterable[str]) -> None:
    for kind in kinds:
        worst: dict[str, float] = {}
        for trial in range(trials):
            rng = np.random.default_rng([trial, dim])
            decades = 12.0 if trial % 2 == 0 else rng.uniform(0, 12)
            problem = Problem.random(kind, rng, dim, decades, 10 ** rng.uniform(-6, 6), rng.uniform(0, 1))
            errors = relative_errors(problem, rng)
            worst = {name: max(error, worst.get(name, 0.0)) for name, error in errors.items()}
        figures = ", ".join(f"{name} {error:.2g}" for name, error in worst.items())
        print(f"{dim} features, {kind}, {trials} of them, worst error in eps x condition: {figures}")
        assert max(worst.values()) <= BOUND


# --- without a reference --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_targets_that_are_fitted_exactly_leave_a_positive_noise(seed: int) -> None:
    """Squares of 1e16 are subtracted from each other, and may differ by less than nothing."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((20, 4))
    posterior = fit(Moments.zero(4).add(x, 1e8 * x @ np.ones(4)), Prior(1e20, InverseGamma(2.0, 0.01)))
    assert posterior.noise_var * (posterior.noise_shape - 1) >= 0.01
    assert np.isfinite(posterior.sample(rng, 100)).all()


def test_large_but_unrelated_features_are_no_reason_to_refuse() -> None:
    gram = np.diag([1e20, 0.0])  # condition number 1e20, yet nothing is lost
    posterior = fit(Moments(gram, np.array([1e20, 0.0]), np.array(1e20), np.array(1.0)), Prior())
    assert_allclose(posterior.mean, [1.0, 0.0])
    assert_allclose(posterior.std(np.eye(2)), [1e-10, 1.0])


@pytest.mark.parametrize("seed", range(10))
def test_a_ridge_lost_in_rounding_is_refused_rather_than_answered_by_chance(seed: int) -> None:
    """The ridge of 1, all that tells these features apart, is below the last digit of a Gram of 1e20."""
    rng = np.random.default_rng(seed)
    x = 1e10 * rng.standard_normal((50, 3))
    x = np.hstack([x, x[:, :1] + x[:, 1:2]])
    with pytest.raises(PosteriorError, match="not positive definite"):
        fit(Moments.zero(4).add(x, np.ones(50)), Prior())


def test_an_impossible_gram_is_refused_by_action_and_condition_number() -> None:
    moments = Moments.zero(2, (3,))
    moments.gram[1] = [[1.0, 5.0], [5.0, 1.0]]
    with pytest.raises(PosteriorError, match=r"action 1 .*condition number inf.*Raise the ridge"):
        fit(moments, Prior())
    with pytest.raises(PosteriorError, match="the regression is not positive definite"):
        fit(Moments(moments.gram[1], moments.cross[1], moments.squares[1], moments.count[1]), Prior())


@pytest.mark.parametrize("moment", ["gram", "cross", "squares"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_diverged_data_are_refused_by_action_and_moment(moment: str, bad: float) -> None:
    moments = Moments.zero(3, (4,))
    getattr(moments, moment)[2] = bad
    with pytest.raises(PosteriorError, match=rf"action 2 .*moment: {moment}.*learning rate"):
        fit(moments, Prior())


# --- in an agent ----------------------------------------------------------------------------------------------


class DeadAndDuplicate(nn.Module):
    """Two live features, each three times, and two dead ones."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        nn.init.eye_(self.layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        live = self.layer(x)
        return torch.cat([live, live, live, torch.zeros_like(live)], dim=1)


def test_an_agent_goes_on_with_dead_and_duplicate_features_and_stays_unsure_of_the_dead() -> None:
    learner = bdqn.make(
        "bdqn",
        lambda: Faulty(""),
        network=DeadAndDuplicate(),
        learning_starts=50,
        buffer_size=500,
        posterior_update_interval=50,
        posterior_batch_size=200,
        noise="fixed",
        noise_var=1e-8,
        prior_var=1.0,
    ).learn(300)
    posterior = learner.agent.online.head.posterior
    assert posterior is not None
    assert (condition_number(posterior) > 1e9).all()
    spread = posterior.std(np.eye(posterior.dim))
    assert_allclose(spread[:, 6:8], 1.0, rtol=1e-12)  # the prior's: nothing has been seen of them
    sums = np.zeros((1, posterior.dim))
    sums[0, [0, 2, 4]] = 1.0  # what was seen is the sum of the three alike
    assert (posterior.std(sums) < 1e-3).all()
    assert np.isfinite(learner.q_posterior(learner.envs.obs).std).all()
