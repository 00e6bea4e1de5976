"""A Q-network: a torso and a head, put together for the observations at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bdqn.config.memory import free_memory
from bdqn.config.observations import ObservationSpec
from bdqn.config.seeding import integer_seed
from bdqn.config.settings import SettingError, Training
from bdqn.networks.frozen_priors import FrozenPrior
from bdqn.networks.heads import Head, HeadShape, Index
from bdqn.networks.initialisation import INITIALISATIONS
from bdqn.networks.lowered import LoweredWeights
from bdqn.networks.normalisation import NormalisedConvolution
from bdqn.networks.torsos import Convolution, Encoder, make_torso, output_width, user_torso

MakeHead = Callable[[HeadShape, torch.Generator], Head]
MakeFrozenPrior = Callable[
    [ObservationSpec, list[int], int, torch.Generator], FrozenPrior
]  # (obs, hidden, actions, generator)


class QNetwork(nn.Module):
    """Torso and head, and perhaps a frozen random prior, whose numbers stand behind the torso's own.

    With ``in_bfloat16`` the features are computed in that precision, from weights in float32.
    """

    def __init__(
        self, torso: nn.Module, head: Head, prior: FrozenPrior | None = None, *, in_bfloat16: bool = False
    ) -> None:
        super().__init__()
        self.torso = torso
        self.head = head
        self.prior = None if prior is None else prior.requires_grad_(False)
        self._lowered = LoweredWeights(self) if in_bfloat16 else None

    @property
    def in_bfloat16(self) -> bool:
        return self._lowered is not None

    def features(self, obs: Tensor, like: Tensor | None = None) -> Tensor:
        """phi. ``like`` is what another network with the same prior made of these observations, if it has been asked:
        the prior's part, which is the larger one where the prior is wide, is then taken from there."""
        if self._lowered is None:
            return self._features(obs, like)
        with torch.autocast(obs.device.type, torch.bfloat16):
            if torch.is_grad_enabled():
                return self._features(obs, like).float()
            with self._lowered.in_place():
                return self._features(obs, like).float()

    def _features(self, obs: Tensor, like: Tensor | None) -> Tensor:
        x: Tensor = self.torso.forward(obs)
        if self.prior is None:
            return self.head.features(x)
        return self.head.features_beside(x, self.prior.forward(obs) if like is None else self.head.beside(like))

    @property
    def can_grow(self) -> bool:
        """Whether the prior may have more features than now."""
        return self.prior is not None and self.prior.can_grow

    def grow(self, observations: int) -> bool:
        """Let the prior tell so many observations apart, if it can; whether there are more features now."""
        return self._widen(0 if self.prior is None else self.prior.grow(observations))

    def grow_like(self, saved: Mapping[str, Any]) -> bool:
        """Have as many features as the network whose tensors were ``saved``; whether these are more."""
        if self.prior is None:
            return False
        return self._widen(self.prior.grow_like({name.removeprefix("prior."): value for name, value in saved.items()}))

    def _widen(self, frozen_width: int) -> bool:
        if frozen_width:
            self.head.widen(frozen_width)
        return bool(frozen_width)

    @property
    def follows_range(self) -> bool:
        """Whether unbounded observations are scaled by the range seen."""
        return any(encoder.unbounded is not None for encoder in self._encoders())

    def follow_range(self, obs: NDArray[Any]) -> None:
        """Scale unbounded observations by the range of these."""
        for encoder in self._encoders():
            encoder.follow(obs)

    def _encoders(self) -> Iterator[Encoder]:
        return (layer for layer in self.modules() if isinstance(layer, Encoder))

    def q(self, phi: Tensor, index: Index) -> Tensor:
        return self.head.forward(phi, index)


def check_network_memory(
    width: int, features: int, layers: int, num_actions: int, copies: int, batch_size: int
) -> None:
    """Refuse dense layers that cannot fit beside a minibatch, and say which would."""
    per_weight = 5 * 4 * copies  # online and target network, gradients, and the optimizer's two averages
    # The first layer, the last and all biases grow with the features, those between with their square.
    single, square = width + num_actions + layers, layers - 1
    needed = per_weight * (single * features + square * features**2)
    free = max(0, free_memory() - 2 * 4 * batch_size * width)  # observations and next ones, as the layers read them
    budget = int(0.9 * free / per_weight)
    if needed > per_weight * budget:
        root = math.isqrt(single**2 + 4 * square * budget)
        fits = (root - single) // (2 * square) if square else budget // single
        raise SettingError(
            f"Dense layers of {features:,} features need {needed / 1e9:,.1f} GB to be trained, but "
            f"{free / 1e9:.1f} GB are free: "
            + (f"set features to at most {fits:,}." if fits > 0 else "make observations smaller.")
        )


def make_network(
    spec: ObservationSpec,
    num_actions: int,
    make_head: MakeHead,
    training: Training,
    seed: int,
    user: nn.Module | None,
    saved: Mapping[str, Any] | None = None,
    make_frozen_prior: MakeFrozenPrior | None = None,
    copies: int = 1,
) -> QNetwork:
    """A network for these observations, or on top of a user's own module, which then gives the features itself.

    One that is to take ``saved`` weights is not made larger than those.
    """
    init = torch.Generator().manual_seed(integer_seed(seed, "network"))
    with torch.random.fork_rng(devices=[]):  # layers initialise themselves from the global generator first
        start = INITIALISATIONS[training.initialisation]
        convolution = NormalisedConvolution if training.batch_norm else Convolution
        torso = make_torso(spec, init, start.layers, convolution) if user is None else user_torso(spec, user)
        width = output_width(torso, spec)
        hidden = [] if user is not None else [training.features] * (1 if spec.is_image else training.mlp_layers)
        weights = sum(inputs * outputs for inputs, outputs in pairwise([width, *hidden]))
        if saved is not None and weights > sum(math.prod(value.shape) for value in saved.values()):
            raise ValueError(f"the dense layers have {weights:,} weights, but fewer are saved.")
        if hidden:
            check_network_memory(width, training.features, len(hidden), num_actions, copies, training.batch_size)
        prior, frozen_width = None, 0
        if make_frozen_prior is not None:
            # From a generator of its own: all else starts as it would without it.
            prior = make_frozen_prior(
                spec, hidden, num_actions, torch.Generator().manual_seed(integer_seed(seed, "prior"))
            )
            frozen_width = output_width(prior, spec)
        head = make_head(HeadShape((width, *hidden), num_actions, frozen_width, start), init)
        return QNetwork(torso, head, prior, in_bfloat16=training.precision == "bfloat16")
