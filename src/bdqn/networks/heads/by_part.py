"""The head of Bayesian DQN with a last layer of its own for each part of an episode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Moments, Posterior
from bdqn.bayes.sampled_backups import Transitions
from bdqn.networks.heads.base import HeadShape
from bdqn.networks.heads.bayesian import BayesianHead


class PartsHead(BayesianHead):
    """phi stands in the columns of its part, zeros in all others: one regression, which is one for each part.

    Which part that is, ones and zeros beside the torso's output say; they are the parts' constants, too. What the parts
    share are the features, and the variance of the noise.
    """

    def __init__(self, shape: HeadShape, generator: torch.Generator, *, fewest_rows: int, **options: Any) -> None:
        """A part of which a fit has fewer rows keeps its last layer."""
        super().__init__(shape, generator, bias=False, **options)
        self._fewest_rows = fewest_rows

    @property
    def parts(self) -> int:
        return self.shape.frozen_width

    def _count_regressors(self) -> int:
        return self.parts * (self.shape.num_features + 1)

    def features_beside(self, x: Tensor, beside: Tensor) -> Tensor:
        phi = self.features(x)
        return torch.cat([(beside[:, :, None] * phi[:, None]).flatten(1), beside], dim=1)

    def beside(self, phi: Tensor) -> Tensor:
        return phi[:, -self.parts :]

    def columns(self, part: int) -> Array:
        """Where a part's regressors stand; the last is its constant."""
        width = self.shape.num_features
        return np.append(np.arange(part * width, (part + 1) * width), self.parts * width + part)

    def fit(self, moments: Moments, transitions: Transitions | None, rng: np.random.Generator) -> None:
        before = self.posterior if self.fitted else None
        super().fit(moments, transitions, rng)
        if before is not None:
            self.believe(self._with_kept_parts(before, moments))

    def _with_kept_parts(self, before: Posterior, moments: Moments) -> Posterior:
        """The parts' columns never meet in the Gram matrix, nor in its factor: one part's can be put back."""
        mean, factor = self.posterior.mean.copy(), self.posterior.factor.copy()
        for own in map(self.columns, range(self.parts)):
            if moments.gram[:, own[-1], own[-1]].sum() < self._fewest_rows:  # of its constant: its rows, counted
                mean[:, own] = before.mean[:, own]
                factor[:, own[:, None], own] = before.factor[:, own[:, None], own]
        return replace(self.posterior, mean=mean, factor=factor)
