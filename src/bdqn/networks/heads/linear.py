"""The head of DQN: one Q-function, its last layer trained by gradients like the rest."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from bdqn.networks.heads.base import Head, HeadShape, Index, TrainingIndices, trained_layers


class LinearHead(Head):
    """Dense layers, then one linear layer."""

    def __init__(self, shape: HeadShape, generator: torch.Generator) -> None:
        super().__init__(shape)
        self.dense, self.last = trained_layers(shape, generator)

    @property
    def mean_index(self) -> Index:
        return None

    def features(self, x: Tensor) -> Tensor:
        return self.dense.forward(x)

    def forward(self, phi: Tensor, index: Index) -> Tensor:
        return linear(phi, self.last.weight, self.last.bias)

    def draw(self, rng: np.random.Generator, count: int) -> Index:
        return None

    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        return TrainingIndices(None, None, None)


class RectifiedHead(LinearHead):
    """The same with a ReLU at the end, as the baselines of the authors' released program: Q is never negative."""

    def forward(self, phi: Tensor, index: Index) -> Tensor:
        return torch.relu(super().forward(phi, index))
