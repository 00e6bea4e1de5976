"""The head of NoisyNet DQN (Fortunato et al., 2018): every dense layer has learned noise; an index is its draw.

A layer's weights are mu + sigma * f(e_out) f(e_in)' and its biases mu + sigma * f(e_out), with f(e) = sign(e) sqrt|e|.
So it is the layer mu plus f(e_out) times the layer sigma of f(e_in) x: no noisy matrix is formed, and every row may
have its own noise.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bdqn.networks.heads.base import HeadShape, Index, TrainingIndices
from bdqn.networks.heads.random_layers import RandomLayersHead


class NoisyHead(RandomLayersHead):
    """DQN's dense layers (mu), and beside each a layer of the same shape that scales its noise (sigma)."""

    def __init__(self, shape: HeadShape, generator: torch.Generator, sigma0: float) -> None:
        super().__init__(shape, generator)
        self.sigma_weights, self.sigma_biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in self.widths:
            scale = sigma0 / math.sqrt(inputs)
            self.sigma_weights.append(torch.full((outputs, inputs), scale))
            self.sigma_biases.append(torch.full((outputs,), scale))

    def noise_sizes(self, index: Tensor) -> list[int]:
        return [inputs + outputs for inputs, outputs in self.widths]

    def random_layer(self, i: int, x: Tensor, noise: Tensor) -> Tensor:
        mu, (at_inputs, at_outputs) = self.mu(i), torch.split(noise, list(self.widths[i]), dim=-1)
        noisy = linear(x * at_inputs, self.sigma_weights[i], self.sigma_biases[i]) * at_outputs
        return linear(x, mu.weight, mu.bias) + noisy

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """f(e) of every layer's inputs and outputs, ``count`` times."""
        noise = rng.standard_normal((count, sum(map(sum, self.widths))), np.float32)
        return torch.from_numpy(np.sign(noise) * np.sqrt(np.abs(noise))).to(self.last.weight.device)

    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        """Independent noise to predict, to select and to evaluate; one draw each for the whole batch."""
        return TrainingIndices(*self.draw(rng, 3))
