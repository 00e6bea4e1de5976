"""The head of LS-DQN (Levine et al., 2017): a last layer trained by gradients, and now and then solved for."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bdqn.bayes.lstd import lstd_q
from bdqn.bayes.noise import Fixed
from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Moments, Prior, fit
from bdqn.bayes.sampled_backups import Transitions
from bdqn.networks.heads.base import HeadShape, Index, TrainingIndices
from bdqn.networks.heads.linear import LinearHead
from bdqn.networks.heads.regression import RegressionHead, layer_weights, with_constant, without_constant


class LeastSquaresHead(LinearHead, RegressionHead):
    """DQN's layers, the last of which regression pulls to its solution from where gradients have left it."""

    def __init__(self, shape: HeadShape, generator: torch.Generator, ridge: float) -> None:
        super().__init__(shape, generator)
        self.ridge = ridge

    @property
    def dim(self) -> int:
        return self.shape.num_features + 1

    def rows(self, phi: Tensor) -> Tensor:
        return with_constant(phi)

    def regression_indices(self, draw: Index, rng: np.random.Generator) -> TrainingIndices:
        return TrainingIndices(None, None, None)

    def fit(self, moments: Moments, transitions: Transitions | None, rng: np.random.Generator) -> None:
        """The solution near the trained layer: the ridge penalises the distance from it, not from zero."""
        solved = torch.as_tensor(self.solve(without_constant(layer_weights(self.last)), moments, transitions))
        with torch.no_grad():
            self.last.weight.copy_(solved[:, :-1])
            self.last.bias.copy_(solved[:, -1])

    def solve(self, trained: Array, moments: Moments, transitions: Transitions | None) -> Array:
        """One step of fitted Q iteration: a regression for each action."""
        return fit(moments, Prior(1.0 / self.ridge, Fixed(1.0), mean=trained)).mean

    def copy_fit(self, other: RegressionHead) -> None:
        self.last.load_state_dict(other.get_submodule("last").state_dict())


class TemporalDifferenceHead(LeastSquaresHead):
    """The same with LSTD-Q: the values of the greedy policy, solved for all actions together."""

    def solve(self, trained: Array, moments: Moments, transitions: Transitions | None) -> Array:
        assert transitions is not None, "its recipe keeps rows"
        return lstd_q(transitions, trained, self.ridge)
