"""Heads: the Q-functions that an agent entertains, and how one of them, its *index*, is picked. One file each."""

from bdqn.heads.base import Head, HeadShape, Index, RegressionHead, TrainingIndices
from bdqn.heads.bayesian import Backups, BayesianHead, BayesianOptions
from bdqn.heads.dropout import DropoutHead
from bdqn.heads.ensemble import EnsembleHead
from bdqn.heads.least_squares import LeastSquaresHead
from bdqn.heads.linear import LinearHead
from bdqn.heads.noisy import NoisyHead

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
