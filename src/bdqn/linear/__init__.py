"""LinPSRL and LinUCB, the paper's linear algorithms, with exact regret, confidence sets and bounds.

NumPy and SciPy only, but for gym_view. Reading order: mdps, families, statistics, confidence, planning, agents,
boldness, tabular, run, regret, bounds, self_normalised.

May import: bayes, config.seeding, config.settings. Never: torch.
"""

from bdqn.linear.families import FAMILIES
from bdqn.linear.mdps import MDP, Known, Replicas
from bdqn.linear.recipes import (
    AGENTS,
    LSVIUCB,
    PSRL,
    UCBVI,
    UCRL2,
    LinPSRL,
    LinUCB,
    LSVIBoltzmann,
    LSVIEpsilon,
    PriorScaleWarning,
)
from bdqn.linear.run import Curves, play, run

__all__ = [
    "AGENTS",
    "FAMILIES",
    "LSVIUCB",
    "MDP",
    "PSRL",
    "UCBVI",
    "UCRL2",
    "Curves",
    "Known",
    "LSVIBoltzmann",
    "LSVIEpsilon",
    "LinPSRL",
    "LinUCB",
    "PriorScaleWarning",
    "Replicas",
    "play",
    "run",
]
