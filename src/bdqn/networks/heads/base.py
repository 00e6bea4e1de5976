"""What every head does. None of its methods is written twice: a head says all of them, or takes them from here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bdqn.bayes.posterior import Array, Moments, Posterior
from bdqn.networks.torsos import Chain, dense_layers, initialise

Index = Tensor | None


@dataclass(frozen=True)
class HeadShape:
    """From what to what: widths of the torso's output and of the dense layers, and the number of actions."""

    sizes: tuple[int, ...]
    num_actions: int
    prior_width: int = 0  # numbers of a frozen prior network, which stand behind the torso's own in its output

    @property
    def num_features(self) -> int:
        return self.sizes[-1]


def trained_layers(shape: HeadShape, generator: torch.Generator) -> tuple[Chain, nn.Linear]:
    """DQN's dense layers, and its last one."""
    dense, last = dense_layers(shape.sizes), nn.Linear(shape.num_features, shape.num_actions)
    for layers in (dense, last):
        initialise(layers, generator)
    return dense, last


class TrainingIndices(NamedTuple):
    """Which Q-function is regressed, which selects the next action, which evaluates it."""

    predict: Index
    select: Index
    evaluate: Index


class Head(nn.Module, ABC):
    """Owns the dense layers after the torso, gives features phi, and turns phi into Q-values under an index.

    An index counts for a whole batch, or there is one per row. ``None`` is the index of a head with a single
    Q-function, and of the mean of one that needs no numbers to say it.
    """

    posterior: Posterior | None = None
    fitted = True  # whether its Q-values mean anything yet

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

    @abstractmethod
    def forward(self, phi: Tensor, index: Index) -> Tensor:
        """Q under an index: (batch, actions); (batch, members, actions) where it stands for several Q-functions."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> Index:
        """``count`` indices to act by."""

    def q_of_draws(self, phi: Tensor) -> Tensor | None:
        """Q under each index that ``draw`` picks from (draws, batch, actions); None: it makes new ones each time."""
        return None

    @abstractmethod
    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        """The indices of one update on a batch of ``rows``, where ``draw`` is the current training draw."""


class RegressionHead(Head):
    """A head whose last layer is fitted by regression on replayed transitions."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Size of the regression."""

    @abstractmethod
    def regressors(self, phi: Tensor) -> Array:
        """Features as rows of the regression (batch, dim)."""

    @abstractmethod
    def offsets(self, phi: Tensor) -> Tensor | None:
        """What Q holds beside the regression (batch, actions); None: nothing."""

    @abstractmethod
    def regression_indices(self, draw: Index, rng: np.random.Generator) -> TrainingIndices:
        """Which Q-functions select and evaluate the next action in the regression's targets; none is regressed."""

    @abstractmethod
    def update(self, moments: Moments) -> None:
        """Fit the last layer to these data."""

    @abstractmethod
    def take_fit(self, other: RegressionHead) -> None:
        """Copy the last layer that another head was fitted to."""


def with_constant(phi: Tensor) -> Array:
    """Features and a constant 1, as rows of a regression."""
    x = phi.detach().cpu().numpy().astype(np.float64)
    return np.hstack([x, np.ones((len(x), 1))])


def layer_weights(last: nn.Linear) -> Tensor:
    """A linear layer as one matrix (outputs, inputs + 1); without the column of its bias where it has none."""
    return last.weight if last.bias is None else torch.cat([last.weight, last.bias[:, None]], dim=1)
