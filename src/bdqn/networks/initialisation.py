"""How weights start: as PyTorch's own layers do, or as the layers of the authors' released program."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

Initialise = Callable[[nn.Module, torch.Generator], None]


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """PyTorch's own initialisation of linear and convolutional layers, from an explicit generator."""
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
            if layer.bias is not None:
                bound = 1 / math.sqrt(layer.weight[0].numel())
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def initialise_normal(module: nn.Module, generator: torch.Generator, std: float) -> None:
    """Normal weights of one scale, whatever the layer's width, and no biases."""
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            nn.init.normal_(layer.weight, std=std, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


@dataclass(frozen=True)
class Initialisation:
    """How each kind of layer starts."""

    layers: Initialise = initialise
    regression: Initialise = initialise  # a last layer that regression will fit


INITIALISATIONS = {
    "uniform": Initialisation(),
    # mx.init.Normal(0.02) for what gradients train, E_W of scale 0.01 for what regression fits.
    "normal": Initialisation(partial(initialise_normal, std=0.02), partial(initialise_normal, std=0.01)),
}
