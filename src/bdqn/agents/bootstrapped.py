"""Bootstrapped DQN (Osband et al., 2016). This is Double DQN with:

- head: K Q-functions on one torso, each trained on targets of its own, from the transitions that its mask lets through;
  each may have a frozen random Q-function beside it (randomised priors, Osband et al., 2018)
- redraw: one of them is picked at each episode's start
- policy: greedy under it (Thompson sampling from an ensemble)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from bdqn.agents import ddqn
from bdqn.config.settings import setting

if TYPE_CHECKING:
    from bdqn.qlearning.choices import Choices


@dataclass(frozen=True)
class Settings:
    """The ensemble."""

    members: int = setting(10, "K: Q-functions in the ensemble", minimum=1, maximum=1000)
    mask_probability: float = setting(
        0.5,
        "probability that a member learns from a transition; 1: all do, and no masks are kept",
        minimum=0,
        maximum=1,
    )
    evaluation: Literal["mean", "vote"] = setting(
        "mean", "without exploration, act greedily under the members' mean, or as most members would"
    )
    prior_scale: float = setting(0.0, "scale of a frozen random Q-function beside each member; 0: none", minimum=0)


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with a head of members."""
    from functools import partial

    from bdqn.networks.frozen_priors import FrozenQ
    from bdqn.networks.heads import EnsembleHead
    from bdqn.qlearning.choices import Masks, greedy_under_draw
    from bdqn.qlearning.draws import Redraw

    members, probability = settings.members, settings.mask_probability
    return replace(
        ddqn.choices(ddqn.Settings()),
        head=partial(
            EnsembleHead,
            members=members,
            prior_scale=settings.prior_scale,
            votes=settings.evaluation == "vote",
        ),
        policy=greedy_under_draw,
        redraw=Redraw(),
        copies=members,
        masks=Masks(members, probability) if probability < 1 else None,
        frozen_prior=partial(FrozenQ, members=members) if settings.prior_scale else None,
    )
