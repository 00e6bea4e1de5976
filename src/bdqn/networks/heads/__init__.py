"""Heads: the Q-functions that an agent entertains, and how one of them, its *index*, is picked. One file each."""

from bdqn.networks.heads.base import Head, HeadShape, Index, RegressionHead, TrainingIndices
from bdqn.networks.heads.bayesian import Backups, BayesianHead, BayesianOptions
from bdqn.networks.heads.dropout import DropoutHead
from bdqn.networks.heads.ensemble import EnsembleHead
from bdqn.networks.heads.least_squares import LeastSquaresHead
from bdqn.networks.heads.linear import LinearHead
from bdqn.networks.heads.noisy import NoisyHead

__all__ = [
    "Backups",
    "BayesianHead",
    "BayesianOptions",
    "DropoutHead",
    "EnsembleHead",
    "Head",
    "HeadShape",
    "Index",
    "LeastSquaresHead",
    "LinearHead",
    "NoisyHead",
    "RegressionHead",
    "TrainingIndices",
]
