"""Whose network it is: Stable-Baselines3's DQN, or a module of anybody's; how observations reach it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bdqn.attached.last_layer import LastLayerNetwork


class QSource(ABC):
    """An agent as it was given: its network, and what it knows beside that."""

    gamma: float | None = None
    buffer: Any = None  # its own replay buffer
    normaliser: Any = None  # Stable-Baselines3's VecNormalize, if it learned behind one

    @abstractmethod
    def network(self, example: NDArray[Any]) -> LastLayerNetwork:
        """Its Q-network, tried on a batch of observations."""

    @abstractmethod
    def other(self, network: Any) -> QSource:
        """Another network that takes observations in the same way."""


class ModuleSource(QSource):
    """A module: it gets a batch of observations as float32."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def network(self, example: NDArray[Any]) -> LastLayerNetwork:
        device = next((p.device for p in self._module.parameters()), torch.device("cpu"))

        def encode(obs: NDArray[Any]) -> Tensor:
            return torch.as_tensor(np.asarray(obs, np.float32), device=device)

        return LastLayerNetwork(self._module, encode, example)

    def other(self, network: Any) -> QSource:
        return q_source(network)


class StableBaselinesSource(QSource):
    """A DQN of Stable-Baselines3, which scales images and encodes categories itself."""

    def __init__(self, model: Any, q_net: Any = None) -> None:
        self._model, self._q_net = model, model.q_net if q_net is None else q_net
        self.gamma = float(model.gamma)
        self.buffer = model.replay_buffer
        self.normaliser = model.get_vec_normalize_env()

    def network(self, example: NDArray[Any]) -> LastLayerNetwork:
        def encode(obs: NDArray[Any]) -> Tensor:
            encoded: Tensor = self._model.policy.obs_to_tensor(obs)[0]
            return encoded

        return LastLayerNetwork(self._q_net, encode, example)

    def other(self, network: Any) -> QSource:
        return StableBaselinesSource(self._model, network)


def q_source(network: Any) -> QSource:
    """What was given, recognised by what it offers."""
    match network:
        case nn.Module():
            return ModuleSource(network)
        case (nn.Module() as features, nn.Linear() as last):
            return ModuleSource(nn.Sequential(features, last))
    if all(hasattr(network, name) for name in ("q_net", "replay_buffer", "gamma", "policy")):
        return StableBaselinesSource(network)
    given = f"the class {network.__name__}" if isinstance(network, type) else f"a {type(network).__name__}"
    raise TypeError(
        "attach takes a DQN of Stable-Baselines3, a torch.nn.Module that ends with a linear layer, or the pair "
        f"(features, last layer), not {given}."
    )
