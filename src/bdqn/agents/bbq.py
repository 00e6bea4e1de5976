"""BBQ-networks (Lipton et al., 2018; Bayes by Backprop, Blundell et al., 2015). This is Double DQN with:

- head: a Gaussian of learned mean and scale for every weight of the dense layers; drawn at each episode's start, or at
  every decision
- policy: greedy under the draw (Thompson sampling from a variational posterior)
- in training, weights of their own for each predicted row; the mean network selects and evaluates; the loss has the
  posterior's divergence from the prior, divided by the number of transitions
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
    """The posterior at the start, its prior, and how long a draw lasts."""

    sigma0: float = setting(0.1, "posterior's scale at the start, times 1 / sqrt(inputs of a layer)", minimum=0)
    prior_sigma: float = setting(1.0, "prior's scale, times 1 / sqrt(inputs of a layer)", minimum=1e-6)
    kl_scale: float = setting(
        0.01, "weight of the divergence from the prior, over the number of transitions; 0: none", minimum=0
    )
    redraw: Literal["step", "episode"] = setting("episode", "a new draw at every decision, or at episode starts")


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with a head of Gaussian weights."""
    from functools import partial

    from bdqn.networks.heads import VariationalHead
    from bdqn.qlearning.choices import greedy_under_draw
    from bdqn.qlearning.draws import Redraw

    lasting = settings.redraw == "episode"
    return replace(
        ddqn.choices(ddqn.Settings()),
        head=partial(
            VariationalHead,
            sigma0=settings.sigma0,
            prior_sigma=settings.prior_sigma,
            kl_scale=settings.kl_scale,
            lasting=lasting,
        ),
        copies=2,  # mean and scale of each weight
        policy=greedy_under_draw,
        redraw=Redraw(steps=0 if lasting else 1),
    )
