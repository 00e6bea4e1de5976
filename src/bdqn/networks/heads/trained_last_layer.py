"""Bayesian heads beside whose posterior gradients train a last layer, as in DQN."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Moments, fit
from bdqn.bayes.sampled_backups import Transitions
from bdqn.networks.heads.base import HeadShape, Index, TrainingIndices
from bdqn.networks.heads.bayesian import BayesianHead
from bdqn.networks.heads.belief import QBelief
from bdqn.networks.heads.regression import layer_weights, without_constant


class TrainedPriorMeanHead(BayesianHead):
    """The trained layer is the prior's mean: the regression corrects it, and the loss trains it."""

    def __init__(self, shape: HeadShape, generator: torch.Generator, **options: Any) -> None:
        super().__init__(shape, generator, **options)
        self.last = _layer_of(self.weights, bias=self.bias)

    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        return super().training_indices(draw, rng, rows)._replace(predict=layer_weights(self.last))

    def fit(self, moments: Moments, transitions: Transitions | None, rng: np.random.Generator) -> None:
        self.believe(fit(moments, replace(self.prior, mean=_numbers(self.last))))


class TrainedMeanHead(BayesianHead):
    """The trained layer is the posterior's mean, at every moment; the regression gives the spread around it.

    An index therefore counts by how far it was from the mean at the time of the fit.
    """

    def __init__(self, shape: HeadShape, generator: torch.Generator, **options: Any) -> None:
        super().__init__(shape, generator, **options)
        self.last = _layer_of(self.weights, bias=self.bias)

    def forward(self, phi: Tensor, index: Index) -> Tensor:
        assert index is not None
        return super().forward(phi, layer_weights(self.last) + (index - self.weights))

    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        return super().training_indices(draw, rng, rows)._replace(predict=self.weights)

    def fit(self, moments: Moments, transitions: Transitions | None, rng: np.random.Generator) -> None:
        trained = _numbers(self.last)
        self.believe(replace(fit(moments, replace(self.prior, mean=trained)), mean=trained))

    def belief_at(self, phi: Tensor) -> QBelief:
        belief = super().belief_at(phi)
        return replace(belief, posterior=replace(belief.posterior, mean=_numbers(self.last)))


def _layer_of(weights: Tensor, *, bias: bool) -> nn.Linear:
    """A layer to be trained, with these weights at the start."""
    num_actions, dim = weights.shape
    layer = nn.Linear(dim - bias, num_actions, bias=bias)
    with torch.no_grad():
        layer.weight.copy_(weights[:, : dim - bias])
        if bias:
            layer.bias.copy_(weights[:, -1])
    return layer


def _numbers(last: nn.Linear) -> Array:
    return without_constant(layer_weights(last))
