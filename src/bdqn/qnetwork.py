"""A Q-network: a torso and a head, put together for the observations at hand."""

from __future__ import annotations

import warnings
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
    """Torso and head. With ``in_bfloat16`` the features are computed in that precision, from weights in float32."""

    def __init__(self, torso: nn.Module, head: AnyHead, *, in_bfloat16: bool = False) -> None:
        super().__init__()
        self.torso = torso
        self.head = head
        self.in_bfloat16 = in_bfloat16

    def features(self, obs: Tensor) -> Tensor:
        if self.in_bfloat16:
            with torch.autocast(obs.device.type, torch.bfloat16):
                return self._features(obs).float()
        return self._features(obs)

    def _features(self, obs: Tensor) -> Tensor:
        features: Tensor = self.head.features(self.torso.forward(obs))
        return features

    def q(self, phi: Tensor, index: Index) -> Tensor:
        return self.head.forward(phi, index)


def warn_if_bfloat16_is_slow(device: torch.device) -> None:
    """Where a processor lacks the instructions, bfloat16 is correct, but several times slower than float32."""
    if device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        warnings.warn(
            "precision is bfloat16, which this processor has to imitate: float32 is several times faster here.",
            stacklevel=2,
        )


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
            if saved is not None and saved[f"head.dense.{i}.weight"].shape != (outputs, inputs):
                raise ValueError(f"dense layer {i} has {outputs:,} x {inputs:,} weights, but the saved one has not.")
        head = make_head([width, *hidden], num_actions, init)
        return QNetwork(torso, head, in_bfloat16=training.precision == "bfloat16")
