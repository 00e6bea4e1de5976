"""A Bayesian head whose mean and draws are backed up through the transitions of the fit (RLSVI)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bdqn.bayes.posterior import Moments
from bdqn.bayes.sampled_backups import Transitions, sampled_backups
from bdqn.networks.heads.base import HeadShape
from bdqn.networks.heads.bayesian import BayesianHead


@dataclass(frozen=True)
class Backups:
    """A fit makes the draws and backs them up; until the next fit, acting picks from them."""

    draws: int
    sweeps: int
    bound: float  # how far a draw's best value may exceed the mean's, in prior standard deviations


class BackedUpHead(BayesianHead):
    """The posterior of Bayesian DQN, with a pool of draws that carry what is uncertain later to where it counts now."""

    pool: Tensor  # (draws, actions, d)

    def __init__(self, shape: HeadShape, generator: torch.Generator, backups: Backups, **options: Any) -> None:
        super().__init__(shape, generator, **options)
        self.backups = backups
        self.register_buffer("pool", self.weights.expand(backups.draws, -1, -1).clone())

    def widen(self, frozen_width: int) -> None:
        super().widen(frozen_width)
        self.pool = self._with_room(self.pool)

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """``count`` members of the pool; the mean until the first fit."""
        if not self.fitted:
            return self.weights.expand(count, -1, -1).clone()
        return self.pool[torch.from_numpy(rng.integers(len(self.pool), size=count))]

    def q_of_draws(self, phi: Tensor) -> Tensor | None:
        return torch.stack([self.forward(phi, weights) for weights in self.pool]) if self.fitted else None

    def fit(self, moments: Moments, transitions: Transitions | None, rng: np.random.Generator) -> None:
        """Fit the posterior, then make its mean and the pool's draws consistent with their own future.

        A mean that lagged behind, one step per fit, would be a wrong target for the features: as these follow it, draws
        made for them lose their meaning before the next fit.
        """
        assert transitions is not None
        super().fit(moments, transitions, rng)
        squares = (transitions.next_x**2).sum(1)
        squares = squares if transitions.leads_to is None else squares[transitions.leads_to]
        norm = np.sqrt(squares.mean(dtype=np.float64))
        prior_std = np.sqrt(self.prior.ridge**-1 * self.posterior.noise_var.max()) * norm
        mean, draws = sampled_backups(
            self.posterior,
            transitions,
            rng,
            self.backups.draws,
            self.backups.sweeps,
            temperature=self.temperature,
            beyond=self.backups.bound * prior_std,
        )
        self.believe(replace(self.posterior, mean=mean))
        self.pool.copy_(torch.as_tensor(draws))
