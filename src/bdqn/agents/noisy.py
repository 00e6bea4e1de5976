"""NoisyNet DQN (Fortunato et al., 2018). This is Double DQN with:

- head: factorised Gaussian noise, of learned scale, in every dense layer; drawn at every decision
- policy: greedy under that noise
- in training, independent noise to predict, to select and to evaluate
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
    """Noise at the start; what becomes of it is learned."""

    sigma0: float = setting(0.5, "scale of the noise at the start, times 1 / sqrt(inputs of a layer)", minimum=0)
    td_target: Literal["double", "max"] = setting(
        "double", "who selects the next action in targets: the online network, or the target network (NoisyNet-DQN's)"
    )


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with a head of noisy layers."""
    from functools import partial

    from bdqn.networks.heads import NoisyHead
    from bdqn.qlearning.choices import greedy_under_draw
    from bdqn.qlearning.draws import Redraw
    from bdqn.qlearning.targets import double_q, max_q

    return replace(
        ddqn.choices(ddqn.Settings()),
        head=partial(NoisyHead, sigma0=settings.sigma0),
        copies=2,  # the weights, and the scales of their noise
        policy=greedy_under_draw,
        redraw=Redraw(steps=1),
        bootstrap=double_q if settings.td_target == "double" else max_q,
    )
