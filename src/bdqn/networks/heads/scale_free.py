"""A backed-up head whose prior is over Q rather than over weights, in the unit of the values seen so far.

One regression carries two beliefs. The modest one has a small prior standard deviation; its mean is the agent's Q. The
bold one has a large prior on the same data and noise: its draws look past what is known. Which kind acts is not the
head's to decide (`qlearning.boldness`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bdqn.bayes.empirical import fit_by_evidence, fit_given_noise
from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Moments
from bdqn.bayes.sampled_backups import BackedUpWeights, Transitions, back_up
from bdqn.networks.heads.backed_up import BackedUpHead
from bdqn.networks.heads.base import HeadShape


@dataclass(frozen=True)
class ScaleFree:
    """Priors over Q, relative to the scale of the values seen so far."""

    spread: float  # prior standard deviation of Q under a modest draw
    frozen_share: float  # of the prior's variance, what frozen features have
    least_noise: float  # variance, as a share of the prior's
    learned_spread: float = 0.0  # widest prior standard deviation of Q through learned features; 0: as given above
    bold_spread: float = 0.0  # prior standard deviation of Q under a bold draw; 0: there are none
    bold_least_noise: float = 1e-6  # variance, as a share of the bold prior's


class ScaleFreeHead(BackedUpHead):
    """Modest draws around the backed-up mean, and bold ones that are backed up themselves."""

    bold_pool: Tensor  # (draws, actions, d)

    def __init__(self, shape: HeadShape, generator: torch.Generator, scale_free: ScaleFree, **options: Any) -> None:
        super().__init__(shape, generator, **options)
        self.scale_free = scale_free
        self.value_scale = 1.0
        if scale_free.bold_spread:
            self.register_buffer("bold_pool", self.pool.clone())

    def draw_bold(self, rng: np.random.Generator, count: int) -> Tensor:
        if not self.fitted:
            return self.draw(rng, count)
        return self.bold_pool[torch.from_numpy(rng.integers(len(self.bold_pool), size=count))]

    def fit(self, moments: Moments, transitions: Transitions | None, rng: np.random.Generator) -> None:
        assert transitions is not None
        own, backups = self.scale_free, self.backups
        self.value_scale = self._value_scale(transitions)
        unit = self._unit_prior_var(moments)
        narrow, wide = ((spread * self.value_scale) ** 2 for spread in (own.spread, own.bold_spread))
        widest = narrow * unit
        widest[: self.shape.num_features] *= max(1.0, (own.learned_spread / own.spread) ** 2 / self._learned_share)
        before = self.posterior.noise_var if self.fitted else None
        modest = fit_by_evidence(moments, narrow * unit, widest, own.least_noise * narrow, before)
        spread = modest.sample(rng, backups.draws, self.temperature) - modest.mean
        kinds = [BackedUpWeights(modest, modest.mean[None], np.zeros(1))]
        if own.bold_spread:
            bold = fit_given_noise(moments, wide * unit, np.maximum(modest.noise_var, own.bold_least_noise * wide))
            beyond = np.full(backups.draws, backups.bound * np.sqrt(wide))
            kinds.append(BackedUpWeights(bold, bold.sample(rng, backups.draws), beyond))
        back_up(kinds, transitions, backups.sweeps)
        mean = kinds[0].weights[0]
        self.believe(replace(modest, mean=mean))
        self.pool.copy_(torch.as_tensor(mean + spread))
        if own.bold_spread:
            self.bold_pool.copy_(torch.as_tensor(kinds[1].weights))

    def _value_scale(self, rows: Transitions) -> float:
        """The largest target in absolute value, within what the rewards seen can add up to; 1 while all are zero."""
        target = rows.reward + rows.discount * rows.values(self.posterior.mean)
        reachable = np.abs(rows.reward).max() / (1 - min(float(rows.discount.max()), 1 - 1e-6))
        return float(min(np.abs(target).max(), reachable)) or 1.0

    @property
    def _learned_share(self) -> float:
        """Of the prior's variance, what learned features have."""
        return 1 - self.scale_free.frozen_share if self.num_regressors > self.shape.num_features else 1.0

    def _unit_prior_var(self, moments: Moments) -> Array:
        """Prior variances of the weights under which Q has about unit variance, whatever the features' norms are."""
        learned = self.shape.num_features
        squares = np.diagonal(moments.gram, axis1=1, axis2=2)[:, :learned].sum() / max(moments.count.sum(), 1)
        var = np.ones(self.dim)  # frozen features have norm 1, and the constant is 1
        var[:learned] = self._learned_share / max(squares, 1e-8)
        var[learned : self.num_regressors] = self.scale_free.frozen_share
        return var
