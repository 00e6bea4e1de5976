"""The agents: one short recipe per file, each handing its choices to the one QAgent.

May import: bayes, config, density, networks, qlearning. Never: gymnasium.
Torch is imported only when a recipe is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bdqn.agents import (
    bbq,
    bdqn,
    bdqn_deep,
    bdqn_explore,
    boltzmann,
    bootstrapped,
    ddqn,
    dqn,
    dqn_counts,
    dqn_cts,
    dropout,
    ls_dqn,
    noisy,
    random,
    ucb,
)

if TYPE_CHECKING:
    from bdqn.qlearning.choices import Choices


@dataclass(frozen=True)
class Recipe:
    """An agent's settings and how they become its choices."""

    settings: type
    choices: Callable[[Any], Choices]
    summary: str


AGENTS: dict[str, Recipe] = {
    "random": Recipe(random.Settings, random.choices, "uniformly random actions"),
    "dqn": Recipe(dqn.Settings, dqn.choices, "DQN"),
    "ddqn": Recipe(ddqn.Settings, ddqn.choices, "Double DQN"),
    "boltzmann": Recipe(boltzmann.Settings, boltzmann.choices, "Boltzmann exploration"),
    "dropout": Recipe(dropout.Settings, dropout.choices, "Dropout-DDQN"),
    "noisy": Recipe(noisy.Settings, noisy.choices, "NoisyNet DQN"),
    "bbq": Recipe(bbq.Settings, bbq.choices, "BBQ-networks"),
    "bootstrapped": Recipe(bootstrapped.Settings, bootstrapped.choices, "Bootstrapped DQN"),
    "dqn-counts": Recipe(dqn_counts.Settings, dqn_counts.choices, "DQN with a bonus by counts"),
    "dqn-cts": Recipe(dqn_cts.Settings, dqn_cts.choices, "DQN-CTS"),
    "ls-dqn": Recipe(ls_dqn.Settings, ls_dqn.choices, "LS-DQN"),
    "ucb": Recipe(ucb.Settings, ucb.choices, "UCB-DQN"),
    "bdqn": Recipe(bdqn.Settings, bdqn.choices, "Bayesian DQN"),
    "bdqn-deep": Recipe(bdqn_deep.Settings, bdqn_deep.choices, "Bayesian DQN whose uncertainty propagates"),
    "bdqn-explore": Recipe(bdqn_explore.Settings, bdqn_explore.choices, "Bayesian DQN that explores out of the box"),
}


def compared() -> dict[str, dict[str, str]]:
    """Every agent's choices in words, "=" where they are Double DQN's; this loads torch."""
    from bdqn.qlearning.describe import describe

    all_words = {name: describe(recipe.choices(recipe.settings())) for name, recipe in AGENTS.items()}
    ddqn_words = all_words["ddqn"]
    return {
        name: words if name == "ddqn" else {k: "=" if word == ddqn_words[k] else word for k, word in words.items()}
        for name, words in all_words.items()
    }
