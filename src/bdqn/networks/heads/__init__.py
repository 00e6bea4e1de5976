"""Heads: the Q-functions that an agent entertains, and how one of them, its *index*, is drawn. One file each."""

from bdqn.networks.heads.backed_up import BackedUpHead, Backups
from bdqn.networks.heads.base import Head, HeadShape, Index, TrainingIndices
from bdqn.networks.heads.bayesian import BayesianHead, Roles
from bdqn.networks.heads.belief import QBelief
from bdqn.networks.heads.by_part import PartsHead
from bdqn.networks.heads.dropout import DropoutHead
from bdqn.networks.heads.ensemble import EnsembleHead
from bdqn.networks.heads.least_squares import LeastSquaresHead, TemporalDifferenceHead
from bdqn.networks.heads.linear import LinearHead, RectifiedHead
from bdqn.networks.heads.noisy import NoisyHead
from bdqn.networks.heads.random_layers import RandomLayersHead
from bdqn.networks.heads.regression import RegressionHead, regression_head
from bdqn.networks.heads.scale_free import QPrior, ScaleFree, ScaleFreeHead
from bdqn.networks.heads.trained_last_layer import TrainedMeanHead, TrainedPriorMeanHead
from bdqn.networks.heads.variational import VariationalHead

__all__ = [
    "BackedUpHead",
    "Backups",
    "BayesianHead",
    "DropoutHead",
    "EnsembleHead",
    "Head",
    "HeadShape",
    "Index",
    "LeastSquaresHead",
    "LinearHead",
    "NoisyHead",
    "PartsHead",
    "QBelief",
    "QPrior",
    "RandomLayersHead",
    "RectifiedHead",
    "RegressionHead",
    "Roles",
    "ScaleFree",
    "ScaleFreeHead",
    "TemporalDifferenceHead",
    "TrainedMeanHead",
    "TrainedPriorMeanHead",
    "TrainingIndices",
    "VariationalHead",
    "regression_head",
]
