"""What a posterior over weights says of values and targets, and how well it is conditioned."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdqn.bayes.noise import sample_noise_var
from bdqn.bayes.numerics import Array, estimated_condition_number
from bdqn.bayes.posterior import Posterior


def predictive_std(posterior: Posterior, x: ArrayLike) -> Array:
    """Standard deviation of a new target at rows x (n, d): the epistemic part and the noise. (..., n)"""
    return np.sqrt(posterior.std(x) ** 2 + posterior.noise_var[..., None])


def sample_values(posterior: Posterior, x: ArrayLike, rng: np.random.Generator, size: int) -> Array:
    """Draw x . w at rows x (n, d), each row on its own (cheaper than drawing w). (size, ..., n)"""
    mean = posterior.mean @ np.asarray(x, np.float64).T  # (..., n)
    shape = (size, *mean.shape)
    # Relative to its expectation, so that std() can be reused: 1 for fixed noise.
    noise = sample_noise_var(posterior.noise_var, posterior.noise_shape, rng, shape[:-1]) / posterior.noise_var
    return np.asarray(mean + np.sqrt(noise)[..., None] * posterior.std(x) * rng.standard_normal(shape))


def of_action(posterior: Posterior, action: int) -> Posterior:
    """The belief about one of a batch of regressions."""
    return Posterior.from_state({name: part[action] for name, part in posterior.state().items()})


def condition_number(posterior: Posterior) -> Array:
    """Condition number of the precision, estimated in the 1-norm from its factor. (...)"""
    return estimated_condition_number(posterior.factor)
