"""What every head offers. A head implements all of it, or inherits what is written here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bdqn.bayes.posterior import Array, Moments, Posterior
from bdqn.bayes.sampled_backups import Transitions
from bdqn.networks.torsos import Chain, dense_layers, initialise

Index = Tensor | None


@dataclass(frozen=True)
class HeadShape:
    """From what to what: widths of the torso's output and of the dense layers, and the number of actions."""

    sizes: tuple[int, ...]
    num_actions: int
    frozen_width: int = 0  # outputs of a frozen prior network, which follow the torso's own

    @property
    def num_features(self) -> int:
        return self.sizes[-1]


class TrainingIndices(NamedTuple):
    """Which Q-function is regressed, which selects the next action, which evaluates it."""

    predict: Index
    select: Index
    evaluate: Index


@dataclass(frozen=True)
class QBelief:
    """What a head with a posterior believes about Q at n observations."""

    posterior: Posterior
    x: Array  # (n, d) rows of the regression
    offsets: Array | float  # what Q holds beside x . w (actions, n)
    draws: Array | None  # Q under the draws that it picks from (draws, n, actions); None: it makes new ones each time

    @property
    def mean(self) -> Array:
        """(n, actions)"""
        return np.asarray((self.posterior.mean @ self.x.T + self.offsets).T)

    @property
    def std(self) -> Array:
        """Epistemic: of the draws that it picks from, or of the posterior that it draws from. (n, actions)"""
        return self.posterior.std(self.x).T if self.draws is None else self.draws.std(0)

    @property
    def predictive_std(self) -> Array:
        """Of a single regression target: the noise included. (n, actions)"""
        return np.asarray(np.sqrt(self.std**2 + self.posterior.noise_var))

    def sample(self, rng: np.random.Generator, count: int) -> Array:
        """``count`` draws of Q; all draws that it picks from, where those are fixed. (draws, n, actions)"""
        if self.draws is not None:
            return self.draws
        return np.swapaxes(self.posterior.sample_values(self.x, rng, count) + self.offsets, -1, -2)


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

    @abstractmethod
    def training_indices(self, draw: Index, rng: np.random.Generator, rows: int) -> TrainingIndices:
        """The indices of one update on a batch of ``rows``, where ``draw`` is the current training draw."""

    def q_of_draws(self, phi: Tensor) -> Tensor | None:
        """Q under each index that ``draw`` picks from (draws, batch, actions); None: it makes new ones each time."""
        return None

    def belief_at(self, phi: Tensor) -> QBelief | None:
        """What it believes about Q; None: it keeps no posterior."""
        return None

    def belief_state(self) -> dict[str, Any]:
        """What it believes beyond its weights and buffers."""
        return {"posterior": {}, "fitted": self.fitted}

    def load_belief_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``belief_state`` gave."""


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
    def regression_indices(self, draw: Index, rng: np.random.Generator) -> TrainingIndices:
        """Which Q-functions select and evaluate the next action in the regression's targets; none is regressed."""

    @abstractmethod
    def fit(self, moments: Moments, transitions: Transitions | None, rng: np.random.Generator) -> None:
        """Fit the last layer to these data; ``transitions`` are there if the head's recipe keeps rows."""

    @abstractmethod
    def copy_fit(self, other: RegressionHead) -> None:
        """Copy the last layer that another head was fitted to."""

    def offsets(self, phi: Tensor) -> Tensor | None:
        """What Q holds beside the regression (batch, actions); None: nothing."""
        return None


def regression_head(head: Head) -> RegressionHead:
    """This head, known to have a last layer that can be fitted."""
    if not isinstance(head, RegressionHead):
        raise TypeError(f"{type(head).__name__} has no last layer to fit: give its recipe no fit.")
    return head


def trained_layers(shape: HeadShape, generator: torch.Generator) -> tuple[Chain, nn.Linear]:
    """DQN's dense layers, and its last one."""
    dense, last = dense_layers(shape.sizes), nn.Linear(shape.num_features, shape.num_actions)
    for layers in (dense, last):
        initialise(layers, generator)
    return dense, last


def with_constant(phi: Tensor) -> Array:
    """Features and a constant 1, as rows of a regression."""
    x = without_constant(phi)
    return np.hstack([x, np.ones((len(x), 1))])


def without_constant(phi: Tensor) -> Array:
    """Features as rows of a regression."""
    rows: Array = phi.detach().cpu().numpy().astype(np.float64)
    return rows


def layer_weights(last: nn.Linear) -> Tensor:
    """A linear layer as one matrix (outputs, inputs + 1); without the column of its bias where it has none."""
    return last.weight if last.bias is None else torch.cat([last.weight, last.bias[:, None]], dim=1)


def apply_weights(weights: Tensor, x: Tensor, *, bias: bool) -> Tensor:
    """W x, for one W (actions, d) or one per row (batch, actions, d); with ``bias``, its last column is the bias."""
    matrix, constant = (weights[..., :-1], weights[..., -1]) if bias else (weights, None)
    if weights.ndim == 2:
        return linear(x, matrix, constant)
    q = torch.matmul(matrix, x.unsqueeze(-1)).squeeze(-1)
    return q if constant is None else q + constant
