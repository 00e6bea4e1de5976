"""A backed-up head whose prior is over Q rather than over weights, in the unit of the returns seen so far.

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
from bdqn.bayes.posterior import Moments, Posterior
from bdqn.bayes.sampled_backups import BackedUpWeights, Transitions, back_up
from bdqn.networks.heads.backed_up import BackedUpHead
from bdqn.networks.heads.base import HeadShape

LEAST_DRAWS, LEAST_SWEEPS = 3, 10  # of a fit to very many rows
ROWS_DRAWN, ROWS_SWEPT = 10_000, 100_000  # rows times draws, and rows times sweeps, of a fit to fewer
TOLERANCE = 1e-4  # of a value's change, at which sweeps end: a step of the way is worth 1 - gamma of it


@dataclass(frozen=True)
class QPrior:
    """What Q is taken to be before there are data, relative to the largest return seen."""

    spread: float  # standard deviation of Q
    frozen_share: float  # of its variance, what frozen features have
    least_noise: float  # variance, as a share of Q's


@dataclass(frozen=True)
class ScaleFree:
    """The two beliefs."""

    modest: QPrior
    bold: QPrior | None = None  # None: there are no bold draws
    allows_for_chance: bool = False  # where outcomes differ by chance, bold draws take none of them for certain
    backs_up_unlike: bool = True  # also where most transitions are unlike all others
    learned_spread: float = 0.0  # widest standard deviation of modest Q through learned features; 0: as given there


class ScaleFreeHead(BackedUpHead):
    """Modest draws around the backed-up mean, and bold ones that are backed up themselves."""

    bold_pool: Tensor  # (draws, actions, d)

    def __init__(self, shape: HeadShape, generator: torch.Generator, scale_free: ScaleFree, **options: Any) -> None:
        super().__init__(shape, generator, **options)
        self.scale_free = scale_free
        self.value_scale = 1.0
        if scale_free.bold is not None:
            self.register_buffer("bold_pool", self.pool.clone())

    def widen(self, frozen_width: int) -> None:
        super().widen(frozen_width)
        if self.scale_free.bold is not None:
            self.bold_pool = self._with_room(self.bold_pool)

    def draw_bold(self, rng: np.random.Generator, count: int) -> Tensor:
        if not self.fitted:
            return self.draw(rng, count)
        return self.bold_pool[torch.from_numpy(rng.integers(len(self.bold_pool), size=count))]

    def fit(self, moments: Moments, transitions: Transitions | None, rng: np.random.Generator) -> None:
        assert transitions is not None
        draws, sweeps = self._affordable(len(transitions.x))
        self.value_scale = max(map(abs, transitions.returns)) or 1.0  # while every reward was zero, any will do
        modest = self._modest(moments)
        spread = modest.sample(rng, draws, self.temperature) - modest.mean
        kinds = [BackedUpWeights(modest, modest.mean[None], np.zeros(1), transitions.part)]
        if (prior := self.scale_free.bold) is not None:
            # Where the same action leads elsewhere by chance, it leads to values that this prior takes for unlike.
            chance = transitions.chance if self.scale_free.allows_for_chance else 0.0
            noise_var = np.maximum(modest.noise_var, max(prior.least_noise, chance) * self._q_var(prior))
            bold = fit_given_noise(moments, self._prior_var(prior, moments), noise_var)
            beyond = np.full(draws, self.backups.bound * np.sqrt(self._q_var(prior)))
            kinds.append(BackedUpWeights(bold, bold.sample(rng, draws), beyond, transitions.part))
        if transitions.recur or self.scale_free.backs_up_unlike:
            back_up(kinds, transitions, sweeps, TOLERANCE)
        mean = kinds[0].weights[0]
        self.believe(replace(modest, mean=mean))
        _fill(self.pool, mean + spread)
        if prior is not None:
            _fill(self.bold_pool, kinds[1].weights)

    def _affordable(self, rows: int) -> tuple[int, int]:
        """How many draws, and how many sweeps at most: many where rows are few, which costs little."""
        draws = max(LEAST_DRAWS, ROWS_DRAWN // max(rows, 1))
        sweeps = max(LEAST_SWEEPS, ROWS_SWEPT // max(rows, 1))
        return min(draws, self.backups.draws), min(sweeps, self.backups.sweeps)

    def _modest(self, moments: Moments) -> Posterior:
        prior, learned = self.scale_free.modest, self.shape.num_features
        var = self._prior_var(prior, moments)
        wider = (self.scale_free.learned_spread / prior.spread) ** 2 / self._learned_share(prior)
        widest = np.concatenate([max(1.0, wider) * var[:learned], var[learned:]])
        before = self.posterior.noise_var if self.fitted else None
        return fit_by_evidence(moments, var, widest, prior.least_noise * self._q_var(prior), before)

    def _q_var(self, prior: QPrior) -> float:
        """The variance of Q under a prior."""
        return (prior.spread * self.value_scale) ** 2

    def _prior_var(self, prior: QPrior, moments: Moments) -> Array:
        """The variances of weights under which Q has about that variance, whatever the features' norms are."""
        learned = self.shape.num_features
        squares = np.diagonal(moments.gram, axis1=1, axis2=2)[:, :learned].sum() / max(moments.count.sum(), 1)
        var = np.ones(self.dim)  # frozen features have norm 1, and the constant is 1
        var[:learned] = self._learned_share(prior) / max(squares, 1e-8)
        var[learned : self.num_regressors] = prior.frozen_share
        return self._q_var(prior) * var

    def _learned_share(self, prior: QPrior) -> float:
        return 1 - prior.frozen_share if self.num_regressors > self.shape.num_features else 1.0


def _fill(pool: Tensor, draws: Array) -> None:
    """Where there are fewer draws than places, each has several."""
    pool.copy_(torch.as_tensor(draws[np.arange(len(pool)) % len(draws)]))
