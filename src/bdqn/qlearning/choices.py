"""The choices that make an agent, and the policies to choose from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bdqn.networks.qnetwork import MakeFrozenPrior, MakeHead
from bdqn.qlearning.draws import Redraw
from bdqn.qlearning.last_layer import Fit
from bdqn.qlearning.rules import Actions, greedy, upper_confidence
from bdqn.qlearning.targets import Bootstrap
from bdqn.qlearning.view import QView

Policy = Callable[[QView, int, np.random.Generator], Actions]


def greedy_under_draw(q: QView, step: int, rng: np.random.Generator) -> Actions:
    """Act as if the current draw were the truth (Thompson sampling)."""
    return greedy(q.draw)


def greedy_under_mean(q: QView, step: int, rng: np.random.Generator) -> Actions:
    """Take what looks best, and explore no further."""
    return greedy(q.mean)


def optimistic(scale: float) -> Policy:
    """Act as if every action were as good as it may be: ``scale`` standard deviations above its mean."""

    def upper_bound(q: QView, step: int, rng: np.random.Generator) -> Actions:
        return upper_confidence(q.mean, q.std, scale)

    return upper_bound


@dataclass(frozen=True)
class Masks:
    """Each transition is given, for ever, to some of the head's members: to each with this probability."""

    members: int
    probability: float


@dataclass(frozen=True)
class Choices:
    """The whole of what distinguishes one agent from another."""

    head: MakeHead
    policy: Policy
    redraw: Redraw | None
    bootstrap: Bootstrap
    fit: Fit | None = None  # when the last layer is fitted in closed form; None: gradients train it
    bold_decay: float = 0.0  # how fast the share of segments falls that the worse kind of draw gets; 0: none are bold
    masks: Masks | None = None
    frozen_prior: MakeFrozenPrior | None = None  # a frozen random module beside the torso
    copies: int = 1  # how many numbers the head trains for each weight of the dense layers
    learns: bool = True

    @property
    def members(self) -> int:
        """How many members have masks."""
        return self.masks.members if self.masks else 0


def describe(choices: Choices) -> dict[str, str]:
    """The choices in words, which are the names of what was chosen."""
    extras = {
        "refit": choices.fit is not None,
        "backups": choices.fit is not None and choices.fit.keeps_rows,
        "boldness": choices.bold_decay > 0,
        "masks": choices.masks is not None,
        "prior": choices.frozen_prior is not None,
        "no learning": not choices.learns,
    }
    return {
        "head": _words(choices.head).removesuffix(" head"),
        "policy": _words(choices.policy),
        "redraw": "never" if choices.redraw is None else str(choices.redraw),
        "bootstrap": _words(choices.bootstrap),
        "extras": ", ".join(name for name, there in extras.items() if there) or "none",
    }


def _words(chosen: Any) -> str:
    """A function's or a class's name as words."""
    name: str = chosen.func.__name__ if isinstance(chosen, partial) else chosen.__name__
    return re.sub("(?<=[a-z])(?=[A-Z])|_", " ", name).lower()
