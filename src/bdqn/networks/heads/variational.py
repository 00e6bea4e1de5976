"""The head of BBQ-networks (Lipton et al., 2018): every dense weight is a Gaussian, fitted by Bayes by Backprop.

A weight is mu + sigma e with sigma = softplus(rho) (Blundell et al., 2015). There are two kinds of index. One has an e
for every weight: a Q-function that may act for a whole episode. The other has one for every unit, in each row: the
pre-activations that independent weights give are independent Gaussians, drawn as such (local reparameterisation,
Kingma et al., 2015). For a single observation both have the same distribution, and the second is far cheaper.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, softplus

from bdqn.networks.heads.base import HeadShape, Index, TrainingIndices
from bdqn.networks.heads.random_layers import RandomLayersHead
from bdqn.networks.heads.regression import apply_weights, layer_weights

TINY = torch.finfo(torch.float32).tiny


class VariationalHead(RandomLayersHead):
    """DQN's dense layers (mu), and beside each the rho of all its weights and biases."""

    def __init__(
        self,
        shape: HeadShape,
        generator: torch.Generator,
        *,
        sigma0: float,
        prior_sigma: float,
        kl_scale: float,
        lasting: bool,
    ) -> None:
        """``lasting``: an acting draw counts for more than one decision, so it must say what each weight is."""
        super().__init__(shape, generator)
        self.rhos = nn.ParameterList(
            torch.full((outputs, inputs + 1), _rho_of(sigma0 / math.sqrt(inputs))) for inputs, outputs in self.widths
        )
        self.prior_stds = [prior_sigma / math.sqrt(inputs) for inputs, _ in self.widths]
        self.kl_scale = kl_scale
        self._units = [outputs for _, outputs in self.widths]
        self._weights = [outputs * (inputs + 1) for inputs, outputs in self.widths]
        self._drawn = self._weights if lasting else self._units

    def noise_sizes(self, index: Tensor) -> list[int]:
        return self._units if index.shape[-1] == sum(self._units) else self._weights

    def random_layer(self, i: int, x: Tensor, noise: Tensor) -> Tensor:
        mu, std = self.mu(i), softplus(self.rhos[i])
        if noise.shape[-1] == self._weights[i]:
            weights = layer_weights(mu) + std * noise.view(*noise.shape[:-1], *std.shape)
            return apply_weights(weights, x, bias=True)
        variance = apply_weights(std.square(), x.square(), bias=True)
        # The slope of a root is infinite at zero, where nothing is random.
        return linear(x, mu.weight, mu.bias) + variance.clamp_min(TINY).sqrt() * noise

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        return self._noise(rng, count, self._drawn)

    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        """Weights of its own for every row that is predicted; the mean network selects and evaluates."""
        return TrainingIndices(self._noise(rng, rows, self._units), None, None)

    def penalty(self, data: int) -> Tensor | None:
        """The divergence's share in the loss of one transition out of so many."""
        return self.kl_scale / data * self.divergence() if self.kl_scale else None

    def divergence(self) -> Tensor:
        """KL(q || prior), where the prior of each weight is a Gaussian around zero."""
        total = torch.zeros((), device=self.last.weight.device)
        for i, (rho, prior_std) in enumerate(zip(self.rhos, self.prior_stds, strict=True)):
            std = softplus(rho)
            squares = sum(part.square().sum() for part in (std, *self.mu(i).parameters()))
            total = total + squares / (2 * prior_std**2) - std.log().sum() + std.numel() * (math.log(prior_std) - 0.5)
        return total

    def _noise(self, rng: np.random.Generator, count: int, sizes: list[int]) -> Tensor:
        return torch.from_numpy(rng.standard_normal((count, sum(sizes)), np.float32)).to(self.last.weight.device)


def _rho_of(std: float) -> float:
    """The inverse of softplus; of zero, the rho of a number whose square is zero."""
    return math.log(math.expm1(max(std, TINY)))
