"""The choices that make an agent, and the policies to choose from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bdqn.networks.qnetwork import MakeFrozenPrior, MakeHead
from bdqn.qlearning.boldness import Bold
from bdqn.qlearning.bonuses import CountBonus
from bdqn.qlearning.draws import Redraw
from bdqn.qlearning.last_layer import Fit
from bdqn.qlearning.rules import Actions, Array, greedy, upper_confidence
from bdqn.qlearning.targets import Bootstrap
from bdqn.qlearning.view import QView
from bdqn.replay.duplicates import Recurrence, always, never, where_transitions_recur

Policy = Callable[[QView, int, np.random.Generator], Actions]
Where = Callable[[Recurrence], bool]  # the kinds of problem that a part of an agent is for

WHERE: dict[str, Where] = {"always": always, "recurring": where_transitions_recur, "never": never}


def greedy_under_draw(q: QView, step: int, rng: np.random.Generator) -> Actions:
    """Act as if the current draw were the truth (Thompson sampling)."""
    return greedy(q.draw, q.allowed)


def greedy_under_mean(q: QView, step: int, rng: np.random.Generator) -> Actions:
    """Take what looks best, and explore no further."""
    return greedy(q.mean, q.allowed)


def optimistic(scale: float) -> Policy:
    """Act as if every action were as good as it may be: ``scale`` standard deviations above its mean."""

    def upper_bound(q: QView, step: int, rng: np.random.Generator) -> Actions:
        return upper_confidence(q.mean, q.std, scale, q.allowed)

    return upper_bound


def safest(degree: Callable[[Array, Array], Array]) -> Policy:
    """Take the action that is the safest by a criterion of mean and spread (`safety`)."""

    def safest_action(q: QView, step: int, rng: np.random.Generator) -> Actions:
        return greedy(degree(q.mean, q.std), q.allowed)

    return safest_action


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
    bold: Bold | None = None  # bold draws beside modest ones; None: none are bold
    acts_as_fitted: Where = never  # by the features of the last fit, rather than today's
    masks: Masks | None = None
    bonus: CountBonus | None = None  # beside rewards, for what was seldom seen
    return_share: float = 0.0  # eta: of an episode's return in a target (mixed Monte-Carlo)
    frozen_prior: MakeFrozenPrior | None = None  # a frozen random module beside the torso
    copies: int = 1  # how many numbers the head trains for each weight of the dense layers
    learns: bool = True

    @property
    def members(self) -> int:
        """How many members have masks."""
        return self.masks.members if self.masks else 0
