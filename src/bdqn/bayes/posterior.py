"""Gaussian Bayesian linear regression: the belief that Bayesian DQN, LinPSRL and LinUCB share.

A belief about weights w with y = x . w + noise is a mean and the Cholesky factor of a precision, never an
explicit covariance: fitting is two triangular solves, a draw is one. Everything is float64 and batched over
leading axes, so "one posterior per action" is an array of shape (actions, ...).

Eq. (w) of the paper, with its sigma_eps and sigma read as the variances ``noise_var`` and ``prior_var``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdqn.bayes.noise import Fixed, Noise, require_positive, sample_noise_var
from bdqn.bayes.numerics import Array, cholesky, require_finite, require_finite_mean, solve, solve_triangle


@dataclass(frozen=True)
class Prior:
    """w ~ N(mean, var I) under fixed noise; w | noise_var ~ N(mean, noise_var * var I) under InverseGamma noise.

    Tying the prior to the noise in the second case makes the belief conjugate, and free of the rewards' units.
    """

    var: float = 1.0
    noise: Noise = field(default_factory=Fixed)
    mean: float | Array = 0.0

    def __post_init__(self) -> None:
        require_positive(prior_var=self.var)
        if not np.isfinite(self.mean).all():
            raise ValueError(f"The prior mean must be finite, not {self.mean!r}.")

    @property
    def ridge(self) -> float:
        """What is added to the Gram matrix's diagonal (lambda in the theory)."""
        return self.noise.ridge(self.var)


@dataclass(frozen=True)
class Moments:
    """All that a regression needs of its data: sums that add, so sequential and batch fits agree."""

    gram: Array  # (..., d, d)  sum of x x'
    cross: Array  # (..., d)    sum of x y
    squares: Array  # (...)     sum of y y
    count: Array  # (...)       number of samples

    @classmethod
    def zero(cls, dim: int, batch: tuple[int, ...] = ()) -> Moments:
        return cls(np.zeros((*batch, dim, dim)), np.zeros((*batch, dim)), np.zeros(batch), np.zeros(batch))

    def add(self, x: ArrayLike, y: ArrayLike) -> Moments:
        """The moments after also seeing rows x (..., n, d) with targets y (..., n)."""
        x = np.asarray(x, np.float64)
        y = np.asarray(y, np.float64)
        x_t = np.swapaxes(x, -1, -2)
        return Moments(
            self.gram + x_t @ x,
            self.cross + (x_t @ y[..., None])[..., 0],
            self.squares + (y * y).sum(-1),
            self.count + y.shape[-1],
        )

    def joined(self, other: Moments) -> Moments:
        """The moments of both data sets together."""
        return Moments(
            self.gram + other.gram, self.cross + other.cross, self.squares + other.squares, self.count + other.count
        )

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which regressors were not zero in every row, of all regressions together; without rows, all of them. (d,)"""
        squares: Array = np.diagonal(self.gram, axis1=-2, axis2=-1)
        seen = np.asarray(squares.reshape(-1, squares.shape[-1]).any(0))
        return seen if seen.any() else ~seen

    def part(self, kept: NDArray[np.bool_]) -> Moments:
        """The moments of these regressors alone."""
        return Moments(self.gram[..., kept, :][..., kept], self.cross[..., kept], self.squares, self.count)

    def among(self, places: NDArray[np.int64], dim: int) -> Moments:
        """The moments of ``dim`` regressors: these stand at ``places``, and the others are zero in every row."""
        whole = Moments.zero(dim, self.count.shape)
        whole.gram[..., places[:, None], places] = self.gram
        whole.cross[..., places] = self.cross
        return replace(whole, squares=self.squares, count=self.count)

    def scaled(self, share: float) -> Moments:
        """The moments of data that count only so much each."""
        return Moments(share * self.gram, share * self.cross, share * self.squares, share * self.count)

    def add_by_action(
        self, x: ArrayLike, actions: NDArray[np.integer[Any]], y: ArrayLike, counts: ArrayLike | None = None
    ) -> None:
        """Add, in place, each row of x (n, d) to the moments of the action that was taken there.

        ``counts`` says how many equal rows each one stands for; None: itself.
        """
        features, targets = np.asarray(x, np.float64), np.asarray(y, np.float64)
        count = np.ones(len(actions)) if counts is None else np.asarray(counts, np.float64)
        for action in np.unique(actions):
            rows = actions == action
            x_a, y_a = features[rows], targets[rows]
            if counts is not None:
                root = np.sqrt(count[rows])  # on both sides of a product
                x_a *= root[:, None]
                y_a *= root
            self.gram[action] += x_a.T @ x_a
            self.cross[action] += x_a.T @ y_a
            self.squares[action] += y_a @ y_a
            self.count[action] += count[rows].sum()


@dataclass(frozen=True)
class Posterior:
    """Belief about the weights of one regression, or of a batch of them along leading axes.

    With noise variance v, w ~ N(mean, v (factor factor')^-1). Under InverseGamma noise v itself is uncertain,
    v ~ InverseGamma(noise_shape, scale), and Q is Student-t; ``noise_shape`` is infinite for fixed noise.
    """

    mean: Array  # (..., d)
    factor: Array  # (..., d, d) lower Cholesky factor of gram + ridge I
    noise_var: Array  # (...) expected noise variance
    noise_shape: Array  # (...)

    @property
    def dim(self) -> int:
        return int(self.mean.shape[-1])

    def among(self, seen: NDArray[np.bool_], prior_var: Array) -> Posterior:
        """This belief about the regressors that were ``seen`` among all, of which the others are as the prior has them.

        ``prior_var`` is that of all weights; all regressors stand in their order.
        """
        if seen.all():
            return self
        shape, all_of_them, places = self.noise_var.shape, np.arange(len(seen)), np.flatnonzero(seen)
        mean, factor = np.zeros((*shape, len(seen))), np.zeros((*shape, len(seen), len(seen)))
        mean[..., places] = self.mean
        factor[..., all_of_them, all_of_them] = np.sqrt(self.noise_var[..., None] / prior_var)
        factor[..., places[:, None], places] = self.factor
        return Posterior(mean, factor, self.noise_var, self.noise_shape)

    def sample(self, rng: np.random.Generator, size: int | None = None, temperature: float = 1.0) -> Array:
        """Draw weights, (size, ..., d) or (..., d); ``temperature`` multiplies the covariance."""
        shape = self.mean.shape if size is None else (size, *self.mean.shape)
        noise_var = sample_noise_var(self.noise_var, self.noise_shape, rng, shape[:-1])
        return self.at(rng.standard_normal(shape), temperature * noise_var)

    def at(self, z: Array, noise_var: Array | None = None) -> Array:
        """The weights that standard normal numbers z (..., d) or (size, ..., d) stand for; the caller drew those."""
        single = z.ndim == self.mean.ndim
        columns = z[..., None] if single else np.moveaxis(z, 0, -1)  # (..., d, size)
        # factor' u = z  gives  u ~ N(0, (factor factor')^-1): one triangular solve, no inverse.
        spread = solve_triangle(self.factor, columns, transposed=True)
        spread = spread[..., 0] if single else np.moveaxis(spread, -1, 0)
        return np.asarray(self.mean + np.sqrt(self.noise_var if noise_var is None else noise_var)[..., None] * spread)

    def std(self, x: ArrayLike) -> Array:
        """Epistemic standard deviation of x . w at rows x (n, d): what more data would remove. (..., n)

        The rows may differ between the regressions of a batch: x (..., n, d).
        """
        x_t = np.swapaxes(np.asarray(x, np.float64), -1, -2)
        x_t = np.broadcast_to(x_t, (*self.mean.shape[:-1], *x_t.shape[-2:]))
        half = solve_triangle(self.factor, x_t)  # (..., d, n)
        return np.asarray(np.sqrt(self.noise_var[..., None] * (half * half).sum(-2)))

    def state(self) -> dict[str, Array]:
        return {
            "mean": self.mean,
            "factor": self.factor,
            "noise_var": self.noise_var,
            "noise_shape": self.noise_shape,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Array]) -> Posterior:
        return cls(state["mean"], state["factor"], state["noise_var"], state["noise_shape"])


def fit(moments: Moments, prior: Prior) -> Posterior:
    """The posterior of Eq. (w), by the Cholesky factor of gram + ridge I."""
    require_finite(moments.gram, moments.cross, moments.squares)
    factor = cholesky(moments.gram + prior.ridge * np.eye(moments.cross.shape[-1]))
    # Centring on the prior mean keeps one formula for zero and non-zero means: w - m0 has a zero-mean prior.
    centre = np.broadcast_to(np.asarray(prior.mean, np.float64), moments.cross.shape)
    residual_cross = moments.cross - (moments.gram @ centre[..., None])[..., 0]
    shift = solve(factor, residual_cross[..., None])[..., 0]
    mean = centre + shift
    require_finite_mean(mean)
    return Posterior(mean, factor, *prior.noise.given(moments, centre, shift))
