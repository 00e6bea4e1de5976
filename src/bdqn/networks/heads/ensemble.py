"""The head of Bootstrapped DQN (Osband et al., 2016): K Q-functions on one torso; an index is the number of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bdqn.networks.heads.base import AllLayersHead, HeadShape, Index, TrainingIndices
from bdqn.networks.torsos import dense_layers


class EnsembleHead(AllLayersHead):
    """K times DQN's dense layers, as one batch of matrices; with ``prior_scale``, each has a frozen prior beside it."""

    all_members: Tensor

    def __init__(
        self,
        shape: HeadShape,
        generator: torch.Generator,
        members: int,
        prior_scale: float = 0.0,
        votes: bool = False,
    ) -> None:
        super().__init__(shape)
        networks = []
        for _ in range(members):
            network = nn.ModuleList([*dense_layers(shape.sizes), nn.Linear(shape.num_features, shape.num_actions)])
            shape.initialisation.layers(network, generator)
            networks.append(network)
        layers = list(zip(*networks, strict=True))  # by layer, then by member
        self.weights = nn.ParameterList(torch.stack([m.weight.detach() for m in layer]) for layer in layers)
        self.biases = nn.ParameterList(torch.stack([m.bias.detach() for m in layer]) for layer in layers)
        self.members, self.prior_scale, self.votes = members, prior_scale, votes
        # Two axes tell it from one member per row.
        self.register_buffer("all_members", torch.arange(members)[None], persistent=False)

    def forward(self, phi: Tensor, index: Index) -> Tensor:
        q = self._q_of_members(phi)
        if index is None:
            return q.mean(1)
        return q if index.ndim == 2 else q[torch.arange(len(q), device=q.device), index]

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """The numbers of ``count`` members."""
        return torch.from_numpy(rng.integers(self.members, size=count)).to(self.all_members.device)

    def q_of_draws(self, phi: Tensor) -> Tensor:
        return self._q_of_members(phi).transpose(0, 1)

    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        """Every member learns from targets of its own: it predicts, selects and evaluates."""
        return TrainingIndices(self.all_members, self.all_members, self.all_members)

    def _q_of_members(self, phi: Tensor) -> Tensor:
        width = self.shape.sizes[0]
        x: Tensor = _ScaledGradient.apply(phi[:, :width], 1 / self.members)  # type: ignore[no-untyped-call]
        x = x.expand(self.members, -1, -1)  # (K, batch, inputs)
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = _Linears.apply(x, weight, bias)  # type: ignore[no-untyped-call]
            x = x if i == last else torch.relu(x)
        q = x.transpose(0, 1)  # (batch, K, actions)
        return q + self.prior_scale * phi[:, width:].view_as(q) if self.prior_scale else q


class _Linears(torch.autograd.Function):
    """A linear layer per member, (K, batch, inputs) to (K, batch, outputs).

    Its gradients are the products that one linear layer takes: autograd would transpose one of them, and a single
    member would differ from Double DQN in the last bits.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias[:, None], x, weight.mT)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        down = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        return down, torch.bmm(gradient.mT, x), gradient.sum(1)


class _ScaledGradient(torch.autograd.Function):
    """x itself, with a scaled gradient: K members would pull the shared torso K times as hard as one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.scale, None
