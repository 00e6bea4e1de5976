"""An agent's Q as one module that needs nothing of this library: observations in, Q and its spread out."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from bdqn.bayes.numerics import Array, solve_triangle
from bdqn.bayes.posterior import Posterior
from bdqn.config.settings import SettingError
from bdqn.networks.frozen_priors import FrozenFeatures, FrozenPrior
from bdqn.networks.heads import Head
from bdqn.networks.heads.bayesian import BayesianHead
from bdqn.networks.qnetwork import QNetwork


class ExportableQ(nn.Module):
    """Q of every action, in the environment's unit. (batch, actions)"""

    outputs: tuple[str, ...] = ("q",)

    def __init__(self, features: QNetwork, head: Head, reward_unit: float) -> None:
        """``features`` gives phi; ``head`` is what makes Q of it, perhaps another network's."""
        super().__init__()
        if features.in_bfloat16:
            raise SettingError("Features in bfloat16 cannot be exported: train with precision = float32.")
        self.network, self.head, self.unit = _settled(features), copy.deepcopy(head), reward_unit

    def forward(self, obs: Tensor) -> tuple[Tensor, ...]:
        phi = self.network.features(obs)
        return (self.unit * self.head.forward(phi, self.head.mean_index),)


class ExportableBelief(ExportableQ):
    """Mean and standard deviation of Q under a posterior: features, mean weights, triangular solve.

    The solve is a product with the inverse of the triangular factor, in float64, because ONNX has no such operation.
    Where an agent picks from the draws of a fit, the deviation is that of those draws.
    """

    outputs = ("q_mean", "q_std")  # not "mean": an operation of that name may be within
    means: Tensor  # (actions, d)
    spreads: Tensor  # (actions, d, d) the inverse factor, times the standard deviation of the noise

    def __init__(self, features: QNetwork, head: BayesianHead, belief: Posterior, reward_unit: float) -> None:
        super().__init__(features, head, reward_unit)
        self.head: BayesianHead
        self.register_buffer("means", torch.from_numpy(belief.mean.copy()))
        self.register_buffer("spreads", torch.from_numpy(_spreads(belief)))

    def forward(self, obs: Tensor) -> tuple[Tensor, ...]:
        phi = self.network.features(obs)
        x = phi[:, : self.head.num_regressors].double()
        if self.head.bias:
            x = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
        mean, offsets = x @ self.means.T, self.head.offsets(phi)
        if offsets is not None:
            mean = mean + offsets
        draws = self.head.q_of_draws(phi)
        if draws is None:
            std = (self.spreads @ x.T).square().sum(1).sqrt().T
        else:
            std = (draws.double() - draws.double().mean(0)).square().mean(0).sqrt()
        return self.unit * mean, self.unit * std


def _spreads(belief: Posterior) -> Array:
    identity = np.broadcast_to(np.eye(belief.dim), belief.factor.shape)
    return solve_triangle(belief.factor, identity) * np.sqrt(belief.noise_var)[:, None, None]


def _settled(network: QNetwork) -> QNetwork:
    """A copy whose frozen features are in use, or zeros, for good: an exported program has no such choice."""
    twin = copy.deepcopy(network)
    if isinstance(twin.prior, FrozenFeatures):
        twin.prior = _Settled(twin.prior)
    return twin


class _Settled(FrozenPrior):
    def __init__(self, prior: FrozenFeatures) -> None:
        super().__init__()
        self.torso, self.features, self.is_used = prior.torso, prior.features, bool(prior.in_use)

    def forward(self, obs: Tensor) -> Tensor:
        features = self.features.forward(self.torso.forward(obs))
        return features if self.is_used else torch.zeros_like(features)
