"""The choices that make an agent, and what they are made of: bootstraps, policies, and when to draw and refit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from torch import Tensor

from bdqn.networks.heads import Index, RegressionHead
from bdqn.networks.qnetwork import MakeHead, MakePrior, QNetwork
from bdqn.qlearning.rules import Actions, Array, greedy, upper_confidence

QValues = Callable[[], Tensor]  # evaluated only if a bootstrap asks for it
Bootstrap = Callable[[QValues, QValues], Tensor]


def double_q(select: QValues, evaluate: QValues) -> Tensor:
    """One network selects the next action, the other evaluates it (van Hasselt et al., 2016)."""
    action = select().argmax(-1, keepdim=True)
    return evaluate().gather(-1, action).squeeze(-1)


def max_q(select: QValues, evaluate: QValues) -> Tensor:
    """The network that evaluates also selects (Mnih et al., 2015)."""
    return evaluate().amax(-1)


class QView:
    """What a policy may look at: Q under the acting draw, its posterior mean and spread. (rows, actions)"""

    def __init__(self, network: QNetwork, phi: Tensor, index: Index) -> None:
        self._network, self._phi, self._index = network, phi, index
        self.shape = (len(phi), network.head.num_actions)

    @cached_property
    def draw(self) -> Array:
        return self._values(self._index)

    @cached_property
    def mean(self) -> Array:
        return self._values(self._network.head.mean_index)

    @cached_property
    def std(self) -> Array:
        """Epistemic standard deviation; only a head with a posterior has one."""
        head = self._network.head
        if head.posterior is None or not isinstance(head, RegressionHead):
            raise TypeError("This agent keeps no posterior over Q, so it has no spread; use a Bayesian agent (bdqn).")
        return head.posterior.std(head.regressors(self._phi)).T

    @cached_property
    def draws(self) -> Array | None:
        """Q under every draw that is picked from (draws, rows, actions); None where each is a new one."""
        q = self._network.head.q_of_draws(self._phi)
        return None if q is None else _numpy(q)

    def _values(self, index: Index) -> Array:
        return _numpy(self._network.q(self._phi, index))


def _numpy(q: Tensor) -> Array:
    values: Array = q.detach().cpu().numpy()
    return values


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
class Redraw:
    """When the acting index is picked again; ``steps`` 0 means at the start of each episode."""

    steps: int = 0  # T^S
    acting_steps: int = 0  # T~^S: a faster draw that only acts, in each environment's own steps; 0: none

    def __str__(self) -> str:
        return {0: "episode", 1: "decision"}.get(self.steps, f"{self.steps:,} decisions")


@dataclass(frozen=True)
class Refit:
    """When and from what the head's last layer is fitted."""

    interval: int  # T^BT
    batch_size: int  # B
    bootstrap: Bootstrap
    at_start: bool = True  # fit once as soon as learning starts, rather than one interval later
    decay: float = 0.0  # share of the past fits' data that is kept; 0: the past is forgotten
    prior_features: int = 0  # of its regressors, how many are not the network's
    keeps_rows: bool = False  # the head wants all rows of a fit, to back its mean and draws up
    from_minibatches: bool = False  # from what the updates have seen since the last fit, rather than from B replayed


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
    refit: Refit | None = None
    masks: Masks | None = None
    prior: MakePrior | None = None  # a frozen random module beside the torso
    copies: int = 1  # how many numbers the head trains for each weight of the dense layers
    learns: bool = True

    @property
    def members(self) -> int:
        """How many members have masks."""
        return self.masks.members if self.masks else 0


def describe(choices: Choices) -> dict[str, str]:
    """The choices in words, which are the names of what was chosen."""
    extras = {
        "refit": choices.refit is not None,
        "backups": choices.refit is not None and choices.refit.keeps_rows,
        "masks": choices.masks is not None,
        "prior": choices.prior is not None,
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
