"""Copies of weights in bfloat16, made again only where the weights have changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bdqn.networks.torsos import Convolution, Dense


class LoweredWeights:
    """The weights of a network's own plain layers in bfloat16, for passes that need no gradient.

    Autocast makes these copies at every pass. Of Atari's layers they take longer than one observation's arithmetic,
    and weights stay the same from one gradient update to the next, the target network's much longer. All other layers,
    such as those of a user's network, are left to autocast.
    """

    def __init__(self, network: nn.Module) -> None:
        layers = [layer for layer in network.modules() if isinstance(layer, (Dense, Convolution))]
        self._layers: list[dict[str, Any]] = [layer._parameters for layer in layers]
        self._lowered: list[dict[str, Tensor]] = [{} for _ in layers]
        self._versions: list[tuple[int, int]] = []

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the layers use the copies instead of the weights."""
        weights = [dict(own) for own in self._layers]
        self._follow(weights)
        for own, lowered in zip(self._layers, self._lowered, strict=True):
            own.update(lowered)
        try:
            yield
        finally:
            for own, before in zip(self._layers, weights, strict=True):
                own.update(before)

    def _follow(self, weights: list[dict[str, Any]]) -> None:
        """Copy again if anything was written to the weights."""
        values = [value for own in weights for value in own.values() if value is not None]
        versions = [(value.data_ptr(), value._version) for value in values]
        if versions == self._versions:
            return
        with torch.no_grad():
            self._lowered = [
                {name: value.bfloat16() for name, value in own.items() if value is not None} for own in weights
            ]
        self._versions = versions
