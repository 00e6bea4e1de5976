"""DQN-CTS (Bellemare et al., 2016; Ostrovski et al., 2017). This is Double DQN with:

- bonus: a reward of its own for each observation that a decision leads to, beta (N + 0.01)^(-1/2), where N is the
  pseudo-count of a density model over images (CTS)
- mixed returns: targets of which a share eta is the return of the episode, bonuses included
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bdqn.agents import dqn_counts

if TYPE_CHECKING:
    from bdqn.qlearning.choices import Choices

Settings = dqn_counts.BonusSettings


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with a bonus by the pseudo-counts of context trees."""
    from bdqn.density.cts import context_trees

    return dqn_counts.with_bonus(settings, context_trees)
