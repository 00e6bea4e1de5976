"""A Q-network: a torso and a head, put together for the observations at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from bdqn.heads import BayesianHead, Index, LinearHead
from bdqn.networks import ObservationSpec, make_torso, output_width, user_torso
from bdqn.seeding import integer_seed
from bdqn.settings import Training

AnyHead = LinearHead | BayesianHead
MakeHead = Callable[[list[int], int, torch.Generator], AnyHead]  # (layer sizes, actions, generator)


class QNetwork(nn.Module):
    """Torso and head."""

    def __init__(self, torso: nn.Module, head: AnyHead) -> None:
        super().__init__()
        self.torso = torso
        self.head = head

    def features(self, obs: Tensor) -> Tensor:
        return self.head.features(self.torso(obs))

    def q(self, phi: Tensor, index: Index) -> Tensor:
        values: Tensor = self.head(phi, index)
        return values


def make_network(
    spec: ObservationSpec,
    num_actions: int,
    make_head: MakeHead,
    training: Training,
    seed: int,
    user: nn.Module | None,
    saved: Mapping[str, Any] | None = None,
) -> QNetwork:
    """A network for these observations, or on top of a user's own module, which then gives the features itself.

    One that is to take ``saved`` weights is not made larger than those.
    """
    init = torch.Generator().manual_seed(integer_seed(seed, "network"))
    with torch.random.fork_rng(devices=[]):  # layers initialise themselves from the global generator first
        torso = make_torso(spec, init) if user is None else user_torso(spec, user)
        width = output_width(torso, spec)
        hidden = [] if user is not None else [training.features] * (1 if spec.is_image else training.mlp_layers)
        for i, (inputs, outputs) in enumerate(pairwise([width, *hidden])):
            if saved is not None and saved[f"head.dense.{2 * i}.weight"].shape != (outputs, inputs):
                raise ValueError(f"dense layer {i} has {outputs:,} x {inputs:,} weights, but the saved one has not.")
        return QNetwork(torso, make_head([width, *hidden], num_actions, init))
