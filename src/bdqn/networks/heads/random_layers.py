"""Heads whose dense layers are all random: an index is their noise, layer after layer."""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bdqn.networks.heads.base import AllLayersHead, HeadShape, Index, trained_layers


class RandomLayersHead(AllLayersHead):
    """DQN's dense layers, which are the mean (mu); subclasses say what noise makes of each."""

    def __init__(self, shape: HeadShape, generator: torch.Generator) -> None:
        super().__init__(shape)
        self.dense, self.last = trained_layers(shape, generator)
        self.widths = list(pairwise((*shape.sizes, shape.num_actions)))  # (inputs, outputs) of each layer

    def forward(self, phi: Tensor, index: Index) -> Tensor:
        if index is None:  # without noise: the network of expected weights
            return linear(self.dense.forward(phi), self.last.weight, self.last.bias)
        x = phi
        for i, noise in enumerate(torch.split(index, self.noise_sizes(index), dim=-1)):
            x = self.random_layer(i, x, noise)
            if i < len(self.dense):
                x = torch.relu_(x)
        return x

    def mu(self, i: int) -> nn.Linear:
        """A layer of expected weights, the last one included."""
        layer = self.last if i == len(self.dense) else self.dense[i]
        assert isinstance(layer, nn.Linear)
        return layer

    @abstractmethod
    def noise_sizes(self, index: Tensor) -> list[int]:
        """How many numbers of this index belong to each layer."""

    @abstractmethod
    def random_layer(self, i: int, x: Tensor, noise: Tensor) -> Tensor:
        """A layer's output, before its ReLU, under this noise."""
