"""From observations to the input of a head: encoders and convolutional torsos, the paper's among them.

A torso ends where the dense layers begin; those belong to the head (some exploration methods change them).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from bdqn.config.observations import NATURE_SIDE, ObservationSpec
from bdqn.networks.initialisation import Initialise, initialise


class Chain(nn.Sequential):
    """Layers one after the other; those without hooks are called without the detour that hooks need.

    That detour took half of a small network's time.
    """

    def forward(self, input: Tensor) -> Tensor:
        x = input
        for layer in self:
            hooked = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks
            x = layer(x) if hooked or layer._backward_pre_hooks else layer.forward(x)
        return x


class Place:
    """Where a leaf stands in a record of bytes."""

    def __init__(self, spec: ObservationSpec) -> None:
        assert spec.start is not None
        self._shape, self._kind = spec.shape, torch.from_numpy(np.empty(0, spec.dtype)).dtype
        self._bytes = slice(spec.start, spec.start + math.prod(spec.shape) * spec.dtype.itemsize)

    def of(self, records: Tensor) -> Tensor:
        """The leaf of each record."""
        return records[:, self._bytes].contiguous().view(self._kind).view(-1, *self._shape)


class Encoder(nn.Module):
    """Observations as the environment gives them -> float tensors on a scale that a network likes.

    Bytes become [0, 1], bounded values [-1, 1] ([0, 1] where they start at zero), categories one-hot vectors; images
    get their channels first, but lie in memory pixel by pixel: convolutions are faster on that.
    """

    first: Tensor  # of several categories, where the one-hot vector of each begins
    offset: Tensor
    scale: Tensor
    followed: Tensor  # which numbers have been scaled by what was seen

    def __init__(self, spec: ObservationSpec) -> None:
        super().__init__()
        self.categories, self.first_category = spec.categories, spec.first_category
        self.counts, self.place = spec.counts, None if spec.start is None else Place(spec)
        if self.counts:
            first = np.cumsum([0, *self.counts[:-1]])
            self.register_buffer("first", torch.as_tensor(first), persistent=False)
        self.is_image = spec.is_image
        self.channels_last = spec.is_image and spec.channels_last
        self.add_channel = spec.is_image and len(spec.shape) == 2
        offset, scale = _normaliser(spec)
        if self.channels_last and scale.ndim:
            offset, scale = np.moveaxis(offset, -1, 0), np.moveaxis(scale, -1, 0)
        self.shifts, self.scales = bool((offset != 0).any()), bool((scale != 1).any())
        self.converts = spec.dtype != np.float32  # an operation that does nothing takes its time, too
        self.flattens = not spec.is_image and len(spec.shape) != 1
        self.unbounded = _unbounded(spec) if spec.follows_range else None
        follows = self.unbounded is not None
        if follows:
            offset, scale = (np.broadcast_to(part, spec.shape).copy() for part in (offset, scale))
            self.shifts = self.scales = True
            self.register_buffer("followed", torch.zeros(spec.shape, dtype=torch.bool))
        # Unless they follow the range seen, they derive from the space, and need not be part of saved states.
        self.register_buffer("offset", torch.as_tensor(offset), persistent=follows)
        self.register_buffer("scale", torch.as_tensor(scale), persistent=follows)

    def follow(self, seen: NDArray[Any]) -> None:
        """Scale unbounded numbers by the range of those seen, and again whenever that has doubled.

        Not at every step: what looked like this must look the same while the network learns.
        """
        if self.unbounded is None:  # a part of a record that has bounds, beside one that has none
            return
        numbers = seen if self.place is None else self.place.of(torch.from_numpy(seen)).numpy()
        low, high = numbers.min(0), numbers.max(0)
        half, middle = (torch.as_tensor(part, dtype=torch.float32) for part in ((high - low) / 2, (high + low) / 2))
        half = torch.where(half > 0, half, torch.ones_like(half)).to(self.scale.device)
        due = torch.as_tensor(self.unbounded, device=half.device) & (~self.followed | (self.scale * half > 2))
        self.offset.copy_(torch.where(due, middle.to(half.device), self.offset))
        self.scale.copy_(torch.where(due, 1 / half, self.scale))
        self.followed |= due

    def forward(self, obs: Tensor) -> Tensor:
        if self.place is not None:
            obs = self.place.of(obs)
        if self.counts:
            return self._one_hot(obs)
        if self.categories:
            return nn.functional.one_hot(obs.long() - self.first_category, self.categories).float()
        x = self._pixels(obs) if self.is_image else obs
        if self.shifts:
            x = x - self.offset
        if self.scales:
            x = x * self.scale
        if self.converts:
            x = x.float()
        return x.flatten(1) if self.flattens else x

    def _one_hot(self, obs: Tensor) -> Tensor:
        """Several one-hot vectors, one after the other."""
        places = obs.flatten(1) + self.first if obs.ndim > 1 else obs[:, None]
        ones = torch.ones(places.shape, device=obs.device)
        return torch.zeros(len(obs), sum(self.counts), device=obs.device).scatter_(1, places, ones)

    def _pixels(self, obs: Tensor) -> Tensor:
        if self.channels_last:
            return obs.permute(0, 3, 1, 2)
        # While they are still bytes, this moves a quarter of the memory.
        return (obs.unsqueeze(1) if self.add_channel else obs).contiguous(memory_format=torch.channels_last)


# Two layers in one, whose parameters are looked up where nn.Module keeps them: its own detour, and a call per ReLU,
# took as long as a small network's arithmetic.


class Dense(nn.Linear):
    """A linear layer and a ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        own = self._parameters
        return torch.relu_(linear(input, own["weight"], own["bias"]))  # type: ignore[arg-type]


class Convolution(nn.Conv2d):
    """A convolution and a ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        own = self._parameters
        return torch.relu_(conv2d(input, own["weight"], own["bias"], self.stride))  # type: ignore[arg-type]


class Flatten(nn.Module):
    """Images of channels to vectors, pixel by pixel, as they lie in memory: nothing is moved."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1).flatten(1)


class FourierFeatures(nn.Module):
    """Random features whose products are near a Gaussian kernel (Rahimi and Recht, 2007): near one another only
    where observations are, within about a ``lengthscale``."""

    frequencies: Tensor
    phases: Tensor

    def __init__(
        self, inputs: int, count: int, lengthscale: float, generator: torch.Generator, scales: int = 1
    ) -> None:
        super().__init__()
        self._lengthscale, self._scales, self._seed = lengthscale, scales, generator.initial_seed()
        self._given, phases = self._drawn(count, inputs, generator)
        self.register_buffer("frequencies", self._given.clone())
        self.register_buffer("phases", phases)

    def _drawn(self, count: int, inputs: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        frequencies = torch.randn(count, inputs, generator=generator) / self._lengthscale
        if self._scales > 1:  # half of the lengthscale, itself, twice, four times, ... in turn
            frequencies *= 2.0 ** (1 - torch.arange(count) % self._scales)[:, None]
        return frequencies, 2 * math.pi * torch.rand(count, generator=generator)

    @property
    def count(self) -> int:
        return len(self.phases)

    def add_as_many(self) -> None:
        """As many features again, as fine as given; the same ones whenever it is asked with as many as now."""
        generator = torch.Generator().manual_seed(self._seed + self.count)
        frequencies, phases = self._drawn(self.count, self._given.shape[1], generator)
        self._given = torch.cat([self._given, frequencies])
        self.frequencies = self._given.to(self.frequencies.device, copy=True)
        self.phases = torch.cat([self.phases, phases.to(self.phases.device)])

    def coarsen(self, factor: float) -> None:
        """See this many times coarser than given, along the same random directions."""
        self.frequencies.copy_(self._given / factor)

    def forward(self, x: Tensor) -> Tensor:
        return math.sqrt(2 / self.count) * torch.cos(linear(x, self.frequencies, self.phases))


def _normaliser(spec: ObservationSpec) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    if spec.dtype == np.uint8 and spec.is_image and (spec.high is None or (spec.high == 255).all()):
        return np.zeros((), np.float32), np.full((), 1 / 255, np.float32)
    if spec.low is None or spec.high is None or spec.dtype == np.bool_:
        return np.zeros((), np.float32), np.ones((), np.float32)
    low, high = spec.low.astype(np.float64), spec.high.astype(np.float64)
    # Number by number: CartPole bounds its angle but not its speed. 1e30: "unbounded" may be the largest float.
    bounded = (np.abs(low) < 1e30) & (np.abs(high) < 1e30) & (high > low)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    # What starts at zero stays there: ones among zeros say where, and would drown among as many minus ones.
    low = np.where(low == 0, -high, low)
    return ((low + high) / 2).astype(np.float32), (2 / (high - low)).astype(np.float32)


def _unbounded(spec: ObservationSpec) -> NDArray[np.bool_] | None:
    """Which numbers of a vector have no declared bounds; None: all have, or it is no vector of numbers."""
    if spec.categories or spec.dtype == np.bool_ or len(spec.shape) != 1:
        return None
    if spec.low is None or spec.high is None:
        return np.ones(spec.shape, np.bool_)
    free: NDArray[np.bool_] = (np.abs(spec.low) >= 1e30) | (np.abs(spec.high) >= 1e30)
    return free if free.any() else None


class Leaves(nn.Module):
    """The leaves of a record, encoded, by name: what a user's own network gets."""

    def __init__(self, spec: ObservationSpec) -> None:
        super().__init__()
        self.names = [name for name, _ in spec.leaves]
        self.encoders = nn.ModuleList(Encoder(leaf) for _, leaf in spec.leaves)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        return {name: encoder(obs) for name, encoder in zip(self.names, self.encoders, strict=True)}


class Branches(nn.Module):
    """A torso for each leaf of a record, whose outputs stand side by side."""

    def __init__(self, torsos: Sequence[nn.Module]) -> None:
        super().__init__()
        self.torsos = nn.ModuleList(torsos)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.cat([torso.forward(obs) for torso in self.torsos], dim=1)


def make_torso(
    spec: ObservationSpec,
    generator: torch.Generator,
    initialise: Initialise = initialise,
    convolution: type[nn.Conv2d] = Convolution,
) -> nn.Module:
    """The torso for these observations: the paper's for large images, MinAtar's for small ones, none for vectors."""
    if spec.leaves:
        return Branches([make_torso(leaf, generator, initialise, convolution) for _, leaf in spec.leaves])
    layers: list[nn.Module] = [Encoder(spec)]
    if spec.is_image:
        layers += (_nature if min(spec.sides) >= NATURE_SIDE else _minatar)(spec.channels, convolution)
        layers.append(Flatten())
    torso = Chain(*layers)
    initialise(torso, generator)
    if spec.is_image:  # bounds of five axes and more cannot lie like pictures
        torso.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return torso


def describe(spec: ObservationSpec) -> str:
    """What a network makes of these observations before its dense layers, on one line."""
    if spec.leaves:
        return ", ".join(f"{describe(leaf)} ({name})" if name else describe(leaf) for name, leaf in spec.leaves)
    if spec.categories or spec.counts:
        several = "" if len(spec.counts) < 2 else f", for {len(spec.counts)} categories"
        return f"a one-hot vector of {spec.categories or sum(spec.counts):,}{several}"
    if not spec.is_image:
        return f"a vector of {math.prod(spec.shape):,}"
    convolutions = "the paper's three convolutions" if min(spec.sides) >= NATURE_SIDE else "MinAtar's convolution"
    return f"a picture of {spec.sides[0]} x {spec.sides[1]} with {spec.channels} channel(s), {convolutions}"


def user_torso(spec: ObservationSpec, network: nn.Module) -> nn.Module:
    """A user's own module, which gets encoded observations and gives features (batch, d); their weights are kept.

    Of a record it gets a dictionary of its leaves.
    """
    if not isinstance(network, nn.Module):
        name = getattr(network, "__name__", type(network).__name__)
        wrong = f"the class {name}: give an instance, {name}()" if isinstance(network, type) else f"a {name}"
        raise TypeError(f"network must be a torch.nn.Module that gives features (batch, d), not {wrong}.")
    for name, layer in network.named_modules():
        if isinstance(layer, (_DropoutNd, _BatchNorm)):
            raise ValueError(
                f"The network's layer {name!r} ({type(layer).__name__}) behaves differently in training and in use, "
                "which this agent does not tell it: leave it out, or use LayerNorm for normalisation."
            )
    return nn.Sequential(Leaves(spec) if spec.leaves else Encoder(spec), copy.deepcopy(network))


def output_width(torso: nn.Module, spec: ObservationSpec) -> int:
    """How many numbers a torso gives per observation; tried on two of them."""
    two = torch.from_numpy(np.full((2, *spec.shape), spec.first_category, spec.dtype))
    with torch.no_grad():
        try:
            out = torso(two)
        except Exception as error:  # a layer for other sizes, say
            parts = Leaves(spec)(two) if spec.leaves else {"": Encoder(spec)(two)}
            shapes = ", ".join(f"{name} {tuple(part.shape)}".strip() for name, part in parts.items())
            raise ValueError(
                f"The network cannot take observations, two of which reach it as float32 of shape {shapes}: "
                f"{type(error).__name__}: {error}"
            ) from error
    given = tuple(out.shape) if isinstance(out, Tensor) else f"a {type(out).__name__}"
    if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != 2 or not out.shape[1]:
        raise ValueError(f"The network must give features of shape (batch, d); for a batch of 2 it gave {given}.")
    if not out.is_floating_point():
        raise ValueError(f"The network must give features as floats; it gave {out.dtype}.")
    return int(out.shape[1])


def dense_layers(sizes: Sequence[int]) -> Chain:
    """Linear + ReLU from each size to the next."""
    return Chain(*(Dense(inputs, outputs) for inputs, outputs in pairwise(sizes)))


def _nature(channels: int, convolution: type[nn.Conv2d]) -> list[nn.Module]:
    """The paper's convolutions (those of Mnih et al., 2015)."""
    return [convolution(channels, 32, 8, stride=4), convolution(32, 64, 4, stride=2), convolution(64, 64, 3)]


def _minatar(channels: int, convolution: type[nn.Conv2d]) -> list[nn.Module]:
    """The convolution of Young and Tian's MinAtar agents."""
    return [convolution(channels, 16, 3)]
