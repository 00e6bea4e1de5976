"""The agents: one short recipe per file, each handing its choices to the one QAgent. Importing this loads no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bdqn.agents import bdqn, ddqn, dqn, random

if TYPE_CHECKING:
    from bdqn.choices import Choices


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
    "bdqn": Recipe(bdqn.Settings, bdqn.choices, "Bayesian DQN"),
}
