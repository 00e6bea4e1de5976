"""A trained Q-network as features and a last linear layer, whatever is between the observation and that layer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bdqn.bayes.numerics import Array
from bdqn.networks.heads.regression import layer_weights, with_constant, without_constant

TOGETHER = 1 << 21  # numbers in the observations of one forward pass

Encode = Callable[[NDArray[Any]], Tensor]


class LastLayerNetwork:
    """A copy of a network, in evaluation mode, whose last layer's input is read by a hook."""

    def __init__(self, network: nn.Module, encode: Encode, example: NDArray[Any]) -> None:
        """``example`` is a batch of observations, on which the network is tried: Q must be its last layer's output."""
        self._network = copy.deepcopy(network).eval().requires_grad_(False)
        self._encode = encode
        self.obs_shape = example.shape[1:]
        self._last = self._find_last(example)
        self.num_actions = self._last.out_features
        self.has_bias = self._last.bias is not None
        self.weights: Array = without_constant(layer_weights(self._last))  # (actions, d)

    def rows(self, obs: NDArray[Any]) -> tuple[Array, Array]:
        """Features as rows of a regression (n, d), and the network's own Q (n, actions)."""
        size = max(32, min(4096, TOGETHER // int(np.prod(self.obs_shape, initial=1))))
        parts = [self._features_and_q(obs[start : start + size]) for start in range(0, len(obs), size)]
        phi, q = (torch.cat(column) for column in zip(*parts, strict=True))
        return without_constant(with_constant(phi) if self.has_bias else phi), without_constant(q)

    @torch.no_grad()
    def _features_and_q(self, obs: NDArray[Any]) -> tuple[Tensor, Tensor]:
        seen: list[Tensor] = []
        with self._last.register_forward_pre_hook(lambda _layer, inputs: seen.append(inputs[0])):
            q = self._network(self._encode(obs))
        return seen[-1], q

    @torch.no_grad()
    def _find_last(self, example: NDArray[Any]) -> nn.Linear:
        """The linear layer whose output is the network's."""
        outputs: list[tuple[nn.Linear, Tensor]] = []
        layers = [layer for layer in self._network.modules() if isinstance(layer, nn.Linear)]
        hooks = [layer.register_forward_hook(lambda layer, _x, y: outputs.append((layer, y))) for layer in layers]
        try:
            q = self._network(self._encode(example))
        except Exception as error:
            raise ValueError(
                f"The network cannot take the transitions' observations, of shape {self.obs_shape}: "
                f"{type(error).__name__}: {error}"
            ) from error
        finally:
            for hook in hooks:
                hook.remove()
        if not isinstance(q, Tensor) or q.ndim != 2 or len(q) != len(example):
            given = tuple(q.shape) if isinstance(q, Tensor) else f"a {type(q).__name__}"
            raise ValueError(f"The network must give Q-values (batch, actions); for a batch of 2 it gave {given}.")
        if outputs and outputs[-1][1].shape == q.shape and torch.equal(outputs[-1][1], q):
            return outputs[-1][0]
        raise ValueError(
            f"{type(self._network).__name__} does not end with a linear layer, whose input would be the features: "
            "Q must be W phi + b, without a ReLU, dueling streams or a distribution after it."
        )
