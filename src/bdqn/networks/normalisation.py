"""Batch normalisation that is told which statistics to use, as the authors' released program has it.

That program normalises by the minibatch while it trains, in the online and in the target network, and by running
statistics while it acts and fits its last layer. These are almost the latest minibatch's: their momentum is 0.1 in
MXNet's sense, the share of what they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d

LATEST = 0.9  # share of the latest minibatch in the running statistics
EPS = 1e-5


class NormalisedConvolution(nn.Conv2d):
    """A convolution, batch normalisation with a learned scale and shift of each channel, and a ReLU."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, size, stride)
        self.scale, self.shift = nn.Parameter(torch.ones(outputs)), nn.Parameter(torch.zeros(outputs))
        self.register_buffer("running_mean", torch.zeros(outputs))
        self.register_buffer("running_var", torch.ones(outputs))
        self.by_batch = False

    def forward(self, input: Tensor) -> Tensor:
        x = conv2d(input, self.weight, self.bias, self.stride)
        running = (self.running_mean, self.running_var)
        return torch.relu_(batch_norm(x, *running, self.scale, self.shift, self.by_batch, LATEST, EPS))


@contextmanager
def batch_statistics(*networks: nn.Module) -> Iterator[None]:
    """Normalise by each minibatch in here, and let the running statistics follow."""
    layers = [layer for network in networks for layer in network.modules() if isinstance(layer, NormalisedConvolution)]
    for layer in layers:
        layer.by_batch = True
    try:
        yield
    finally:
        for layer in layers:
            layer.by_batch = False
