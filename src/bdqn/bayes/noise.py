"""The noise of a regression's targets: of known variance, as in the paper, or learned together with the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bdqn.bayes.numerics import Array

if TYPE_CHECKING:
    from bdqn.bayes.posterior import Moments


def require_positive(**values: float) -> None:
    """Refuse a variance or a scale that is not a positive number."""
    for name, value in values.items():
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive number, not {value!r}.")


@dataclass(frozen=True)
class Fixed:
    """Noise of a known variance (the paper's sigma_eps)."""

    var: float = 1.0

    def __post_init__(self) -> None:
        require_positive(noise_var=self.var)

    def ridge(self, prior_var: float) -> float:
        """Noise variance over prior variance."""
        return self.var / prior_var

    def given(self, moments: Moments, centre: Array, shift: Array) -> tuple[Array, Array]:
        """Data change nothing: the variance, and the shape of a distribution that has no width."""
        batch = moments.count.shape
        return np.full(batch, self.var), np.full(batch, np.inf)


@dataclass(frozen=True)
class InverseGamma:
    """Noise of unknown variance ~ InverseGamma(shape, scale), learned from the residuals (Normal-Inverse-Gamma)."""

    shape: float = 2.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        require_positive(noise_scale=self.scale)
        if not 1 < self.shape < np.inf:
            raise ValueError(f"noise_shape must be above 1 (so that the noise has a mean), not {self.shape!r}.")

    def ridge(self, prior_var: float) -> float:
        """The prior's variance is relative to the noise's, which cancels."""
        return 1.0 / prior_var

    def given(self, moments: Moments, centre: Array, shift: Array) -> tuple[Array, Array]:
        """Expected variance and shape after these data, where the mean is ``shift`` away from the prior's, ``centre``.

        The scale grows by half of: squared residuals of the mean + ridge |shift|^2.
        """
        gram_centre = (moments.gram @ centre[..., None])[..., 0]
        shape = self.shape + moments.count / 2
        residual_squares = moments.squares - 2 * (centre * moments.cross).sum(-1) + (centre * gram_centre).sum(-1)
        explained = (shift * (moments.cross - gram_centre)).sum(-1)
        scale = self.scale + np.maximum(residual_squares - explained, 0.0) / 2
        return scale / (shape - 1.0), shape


Noise = Fixed | InverseGamma


def sample_noise_var(expected: Array, noise_shape: Array, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw variances of this expectation and shape; where the shape is infinite there is nothing to draw."""
    if np.isinf(noise_shape).all():
        return np.broadcast_to(expected, shape)
    return np.asarray(expected * (noise_shape - 1.0) / rng.standard_gamma(noise_shape, shape))
