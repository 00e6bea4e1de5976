"""DQN (Mnih et al., 2015). This is Double DQN with: the target network also selects the next action."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bdqn.agents import ddqn

if TYPE_CHECKING:
    from bdqn.qlearning.choices import Choices

Settings = ddqn.Settings


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with another bootstrap."""
    from bdqn.qlearning.targets import max_q

    return replace(ddqn.choices(settings), bootstrap=max_q)
