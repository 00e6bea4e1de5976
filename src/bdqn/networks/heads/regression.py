"""Heads whose last layer is fitted by regression."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Moments
from bdqn.bayes.sampled_backups import Transitions
from bdqn.networks.heads.base import Head, Index, TrainingIndices


class RegressionHead(Head):
    """A head whose last layer is fitted by regression on replayed transitions."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Size of the regression."""

    @abstractmethod
    def rows(self, phi: Tensor) -> Tensor:
        """Features as rows of the regression (batch, dim), in float64, on their device."""

    def regressors(self, phi: Tensor) -> Array:
        """The same on the host."""
        rows: Array = self.rows(phi).cpu().numpy()
        return rows

    def regressors_in_use(self, phi: Tensor) -> tuple[Array, NDArray[np.int64]]:
        """The columns of ``regressors`` that are not zero in all of these rows, or more; and which columns they are."""
        return self.regressors(phi), np.arange(self.dim)

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


def with_constant(phi: Tensor) -> Tensor:
    """Features and a constant 1, as rows of a regression."""
    x = phi.detach().double()
    return torch.cat([x, torch.ones_like(x[:, :1])], dim=1)


def without_constant(phi: Tensor) -> Array:
    """Numbers of a network in float64, on the host."""
    rows: Array = phi.detach().cpu().numpy().astype(np.float64)
    return rows


def layer_weights(last: nn.Linear) -> Tensor:
    """A linear layer as one matrix (outputs, inputs + 1); without the column of its bias where it has none."""
    return last.weight if last.bias is None else torch.cat([last.weight, last.bias[:, None]], dim=1)


def apply_weights(weights: Tensor, x: Tensor, *, bias: bool) -> Tensor:
    """W x, for one W (actions, d) or one per row (batch, actions, d); with ``bias``, its last column is the bias.

    Where x is shorter than W, what it lacks counts as zeros.
    """
    matrix, constant = weights[..., : x.shape[-1]], weights[..., -1] if bias else None
    if weights.ndim == 2:
        return linear(x, matrix, constant)
    q = torch.matmul(matrix, x.unsqueeze(-1)).squeeze(-1)
    return q if constant is None else q + constant
