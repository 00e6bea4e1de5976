"""What every head offers: features, Q-values under an index, and indices to act by and to train with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bdqn.networks.heads.belief import NoBelief
from bdqn.networks.initialisation import INITIALISATIONS, Initialisation
from bdqn.networks.torsos import Chain, dense_layers

Index = Tensor | None


@dataclass(frozen=True)
class HeadShape:
    """From what to what: widths of the torso's output and of the dense layers, and the number of actions."""

    sizes: tuple[int, ...]
    num_actions: int
    frozen_width: int = 0  # outputs of a frozen prior network, which follow the torso's own
    initialisation: Initialisation = INITIALISATIONS["uniform"]  # how the layers' weights start

    @property
    def num_features(self) -> int:
        return self.sizes[-1]


class TrainingIndices(NamedTuple):
    """Which Q-function is regressed, which selects the next action, which evaluates it."""

    predict: Index
    select: Index
    evaluate: Index


class Head(NoBelief, nn.Module, ABC):
    """Owns the dense layers after the torso, gives features phi, and turns phi into Q-values under an index.

    An index counts for a whole batch, or there is one per row. ``None`` is the index of a head with a single
    Q-function, and of the mean of one that needs no numbers to say it.
    """

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape

    @property
    def num_actions(self) -> int:
        return self.shape.num_actions

    @property
    @abstractmethod
    def mean_index(self) -> Index:
        """The Q-function that it acts by when it does not explore."""

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """phi: what ``forward`` needs of an observation, whatever the index. (batch, d)"""

    def features_beside(self, x: Tensor, beside: Tensor) -> Tensor:
        """phi where a frozen prior has made something of the same observations, too."""
        return self.features(torch.cat([x, beside], dim=1))

    def widen(self, frozen_width: int) -> None:
        """Take in so many outputs of a frozen prior, more than so far."""
        raise TypeError(f"{type(self).__name__} cannot take in more outputs of a frozen prior.")

    def beside(self, phi: Tensor) -> Tensor:
        """What the frozen prior has made of the observations that phi belongs to."""
        return phi[:, -self.shape.frozen_width :]

    @abstractmethod
    def forward(self, phi: Tensor, index: Index) -> Tensor:
        """Q under an index: (batch, actions); (batch, members, actions) where it stands for several Q-functions."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> Index:
        """``count`` indices to act by."""

    @abstractmethod
    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        """The indices of one update on a batch of ``rows``, where ``draw`` is the current training draw."""

    def penalty(self, data: int) -> Tensor | None:
        """What its belief costs in the loss, where that belief rests on so many transitions; None: nothing."""
        return None

    def draw_bold(self, rng: np.random.Generator, count: int) -> Index:
        """``count`` indices that look further past what is known; a head without such gives its ordinary ones."""
        return self.draw(rng, count)


class AllLayersHead(Head):
    """A head whose layers all depend on the index, so that phi is the torso's output; no index: their mean."""

    @property
    def mean_index(self) -> Index:
        return None

    def features(self, x: Tensor) -> Tensor:
        return x


def trained_layers(shape: HeadShape, generator: torch.Generator) -> tuple[Chain, nn.Linear]:
    """DQN's dense layers, and its last one."""
    dense, last = dense_layers(shape.sizes), nn.Linear(shape.num_features, shape.num_actions)
    for layers in (dense, last):
        shape.initialisation.layers(layers, generator)
    return dense, last
