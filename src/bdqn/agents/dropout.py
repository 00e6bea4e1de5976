"""Dropout-DDQN (Gal and Ghahramani, 2016; the paper's Appendix on dropout). This is Double DQN with:

- head: features are left out at random; the acting mask is drawn at every decision, or at each episode's start
- policy: greedy under that mask (Thompson sampling, if masks were posterior draws)
- in training, masks of their own for each row: to predict, to select and to evaluate
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
    """How much is left out, and for how long."""

    dropout_rate: float = setting(0.5, "probability that a feature is left out", minimum=0, maximum=0.99)
    redraw: Literal["step", "episode"] = setting("step", "a new acting mask at every decision, or at episode starts")


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with a head of masks."""
    from functools import partial

    from bdqn.networks.heads import DropoutHead
    from bdqn.qlearning.choices import greedy_under_draw
    from bdqn.qlearning.draws import Redraw

    return replace(
        ddqn.choices(ddqn.Settings()),
        head=partial(DropoutHead, rate=settings.dropout_rate),
        policy=greedy_under_draw,
        redraw=Redraw(steps=1 if settings.redraw == "step" else 0),
    )
