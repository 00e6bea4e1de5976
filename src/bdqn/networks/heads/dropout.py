"""The head of Dropout-DDQN (Gal and Ghahramani, 2016): features are left out at random; an index is a mask."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from bdqn.networks.heads.base import Head, HeadShape, Index, TrainingIndices, trained_layers


class DropoutHead(Head):
    """DQN's layers, with each feature kept with probability 1 - rate, and scaled up so that its expectation stays."""

    def __init__(self, shape: HeadShape, generator: torch.Generator, rate: float) -> None:
        super().__init__(shape)
        self.dense, self.last = trained_layers(shape, generator)
        self.rate = rate

    @property
    def mean_index(self) -> Index:
        """All features: the network of expected weights, not the mean over masks."""
        return None

    def features(self, x: Tensor) -> Tensor:
        return self.dense.forward(x)

    def forward(self, phi: Tensor, index: Index) -> Tensor:
        return linear(phi if index is None else phi * index, self.last.weight, self.last.bias)

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """``count`` masks (count, d)."""
        kept = rng.random((count, self.shape.num_features), np.float32) >= self.rate
        return torch.from_numpy(kept / np.float32(1 - self.rate)).to(self.last.weight.device)

    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        """A mask for every row, each time anew."""
        return TrainingIndices(*(self.draw(rng, rows) for _ in range(3)))
