"""Regression whose noise, and whose prior over functions, come from the data (empirical Bayes)."""

from __future__ import annotations

import numpy as np

from bdqn.bayes.numerics import Array, cholesky, require_finite, require_finite_mean, solve
from bdqn.bayes.posterior import Moments, Posterior

ROUNDS = 4  # of noise and mean in alternation


def fit_by_residuals(moments: Moments, prior_var: Array, least_noise: float) -> Posterior:
    """The posterior under w ~ N(0, diag(prior_var)) and noise of the size of its own residuals, action by action."""
    require_finite(moments.gram, moments.cross, moments.squares)
    noise_var = np.maximum(moments.squares / np.maximum(moments.count, 1), least_noise)
    for _ in range(ROUNDS):
        belief = fit_given_noise(moments, prior_var, noise_var)
        mean = belief.mean
        explained = 2 * (mean * moments.cross).sum(-1) - (mean * (moments.gram @ mean[..., None])[..., 0]).sum(-1)
        residuals = np.maximum(moments.squares - explained, 0.0)
        noise_var = np.maximum((residuals + least_noise) / (moments.count + 1), least_noise)
    return belief


def fit_given_noise(moments: Moments, prior_var: Array, noise_var: Array) -> Posterior:
    """The posterior under w ~ N(0, diag(prior_var)) and noise of a known variance for each action."""
    ridge = (noise_var[..., None] / prior_var)[..., None] * np.eye(len(prior_var))
    factor = cholesky(moments.gram + ridge)
    mean = solve(factor, moments.cross[..., None])[..., 0]
    require_finite_mean(mean)
    return Posterior(mean, factor, noise_var, np.full(noise_var.shape, np.inf))
