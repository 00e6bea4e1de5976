"""Regression whose noise, and whose prior over functions, come from the data (empirical Bayes)."""

from __future__ import annotations

import numpy as np

from bdqn.bayes.numerics import Array, cholesky, inverse_diagonal, require_finite, require_finite_mean, solve
from bdqn.bayes.posterior import Moments, Posterior

ROUNDS = 3  # of fit and estimate in alternation; the next fit begins with the noise that this one ends with


def fit_by_evidence(
    moments: Moments, prior_var: Array, widest: Array, least_noise: float, before: Array | None = None
) -> Posterior:
    """The posterior whose noise, action by action, and whose prior are the most likely given the data (MacKay, 1992).

    The weights that may vary more widely than N(0, diag(prior_var)), up to N(0, diag(widest)), share one factor.
    ``before`` is the noise to begin with; None: all that the targets vary.
    """
    # Nothing is learned of a regressor that was always zero: the rounds do without those.
    seen = moments.seen
    moments = moments.part(seen)
    require_finite(moments.gram, moments.cross, moments.squares)
    noise_var = np.maximum(moments.squares / np.maximum(moments.count, 1) if before is None else before, least_noise)
    free, var = widest > prior_var, prior_var
    like_prior = noise_var.size * free.sum()
    for _ in range(ROUNDS - 1):
        belief = _fit_to_seen(moments, var[seen], noise_var)
        # How much of each weight the data decide, rather than the prior: these sum up to the parameters in use.
        decided = 1 - noise_var[:, None] * inverse_diagonal(belief.factor) / var[seen]
        spare = np.maximum(moments.count + 1 - decided.sum(-1), 1)
        noise_var = np.maximum((_squared_residuals(moments, belief.mean) + least_noise) / spare, least_noise)
        if free.any():
            # As if as many weights again had been seen that agree with the prior: a few rewards prove little.
            own = free[seen]
            size = (belief.mean[:, own] ** 2 / prior_var[seen & free]).sum()
            wider = (size + like_prior) / (decided[:, own].sum() + like_prior)
            var = np.where(free, np.clip(wider * prior_var, prior_var, widest), prior_var)
    return _fit_to_seen(moments, var[seen], noise_var).among(seen, var)


def _squared_residuals(moments: Moments, mean: Array) -> Array:
    explained = 2 * (mean * moments.cross).sum(-1) - (mean * (moments.gram @ mean[..., None])[..., 0]).sum(-1)
    return np.asarray(np.maximum(moments.squares - explained, 0.0))


def fit_given_noise(moments: Moments, prior_var: Array, noise_var: Array) -> Posterior:
    """The posterior under w ~ N(0, diag(prior_var)) and noise of a known variance for each action."""
    seen = moments.seen
    return _fit_to_seen(moments.part(seen), prior_var[seen], noise_var).among(seen, prior_var)


def _fit_to_seen(moments: Moments, prior_var: Array, noise_var: Array) -> Posterior:
    precision = moments.gram.copy()
    diagonal = np.arange(len(prior_var))
    precision[..., diagonal, diagonal] += noise_var[..., None] / prior_var
    factor = cholesky(precision)
    mean = solve(factor, moments.cross[..., None])[..., 0]
    require_finite_mean(mean)
    return Posterior(mean, factor, noise_var, np.full(noise_var.shape, np.inf))
