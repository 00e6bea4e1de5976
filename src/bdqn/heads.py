"""Heads: the Q-functions that an agent entertains, and how one of them, its *index*, is picked.

A head owns the dense layers after the torso, gives features phi, and turns phi into Q-values under an index:
one index for a whole batch, or one per row. ``None`` is the index of a head with a single Q-function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bdqn.networks import dense_layers, initialise
from bdqn.posterior import Moments, Prior, fit

Index = Tensor | None


class TrainingIndices(NamedTuple):
    """Which Q-function is regressed, which selects the next action, which evaluates it."""

    predict: Index
    select: Index
    evaluate: Index


class Head(nn.Module):
    """What every head has: dense layers to the features, then Q-values."""

    def __init__(self, sizes: Sequence[int], num_actions: int) -> None:
        super().__init__()
        self.dense = dense_layers(sizes)
        self.num_features = sizes[-1]
        self.num_actions = num_actions

    def features(self, x: Tensor) -> Tensor:
        """phi: what the Q-values are linear in. (batch, d)"""
        return self.dense.forward(x)


class LinearHead(Head):
    """One Q-function, its last layer trained by gradients like the rest (DQN)."""

    posterior: None = None
    fitted = True

    def __init__(self, sizes: Sequence[int], num_actions: int, generator: torch.Generator) -> None:
        super().__init__(sizes, num_actions)
        self.last = nn.Linear(sizes[-1], num_actions)
        initialise(self, generator)

    @property
    def mean_index(self) -> Index:
        return None

    def forward(self, phi: Tensor, index: Index) -> Tensor:
        return linear(phi, self.last.weight, self.last.bias)

    def draw(self, rng: np.random.Generator, count: int) -> Index:
        return None

    def training_indices(self, draw: Index) -> TrainingIndices:
        return TrainingIndices(None, None, None)


class BayesianHead(Head):
    """A Gaussian posterior over the last layer's weights, one per action; an index is a weight matrix W.

    No gradient reaches W: it is refitted by Bayesian linear regression on replayed transitions.
    """

    weights: Tensor

    def __init__(
        self,
        sizes: Sequence[int],
        num_actions: int,
        generator: torch.Generator,
        prior: Prior,
        *,
        temperature: float = 1.0,
        bias_feature: bool = True,
        loss_head: Literal["draw", "mean"] = "mean",
    ) -> None:
        super().__init__(sizes, num_actions)
        self.prior = prior
        self.temperature = temperature
        self.bias_feature = bias_feature
        self.loss_head = loss_head
        initialise(self, generator)
        # The posterior mean w^target. It starts as a linear layer would: with zeros the features got no gradient.
        last = nn.Linear(sizes[-1], num_actions, bias=bias_feature)
        initialise(last, generator)
        weights = [last.weight, last.bias[:, None]] if bias_feature else [last.weight]
        self.register_buffer("weights", torch.cat(weights, dim=1).detach())
        self.fitted = False
        belief = fit(Moments.zero(self.dim, (num_actions,)), prior)
        self.posterior = replace(belief, mean=self.weights.numpy().astype(np.float64))

    @property
    def dim(self) -> int:
        """Size of the regression: the features, and a constant 1 where there is a bias feature."""
        return self.num_features + self.bias_feature

    @property
    def mean_index(self) -> Tensor:
        return self.weights

    def forward(self, phi: Tensor, index: Index) -> Tensor:
        """Q = W phi: W (actions, d) for all rows, or one W per row (batch, actions, d)."""
        assert index is not None
        weight, bias = index, None
        if self.bias_feature:
            weight, bias = index[..., :-1], index[..., -1]
        if index.ndim == 2:
            return linear(phi, weight, bias)
        q = torch.matmul(weight, phi.unsqueeze(-1)).squeeze(-1)
        return q if bias is None else q + bias

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """``count`` weight matrices from the posterior (count, actions, d); its mean until the first fit."""
        if not self.fitted:
            return self.weights.expand(count, -1, -1).clone()
        sample = self.posterior.sample(rng, count, self.temperature)
        return torch.as_tensor(sample, dtype=self.weights.dtype, device=self.weights.device)

    def training_indices(self, draw: Index) -> TrainingIndices:
        """Alg. 3: the draw is regressed and selects, the posterior mean evaluates; or the mean is regressed too."""
        return TrainingIndices(draw if self.loss_head == "draw" else self.weights, draw, self.weights)

    def regressors(self, phi: Tensor) -> np.ndarray:
        """Features as rows of the regression (batch, dim), float64."""
        x = phi.detach().cpu().numpy().astype(np.float64)
        return np.hstack([x, np.ones((len(x), 1))]) if self.bias_feature else x

    def update(self, moments: Moments) -> None:
        """Replace the belief by the posterior given these data."""
        self.posterior = fit(moments, self.prior)
        self.weights.copy_(torch.as_tensor(self.posterior.mean))
        self.fitted = True
