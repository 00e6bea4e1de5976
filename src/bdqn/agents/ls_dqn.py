"""LS-DQN (Levine et al., 2017, "Shallow Updates for Deep RL"), the paper's nearest relative. This is Double DQN with:

- head: every T^BT decisions the last layer is replaced by the solution of a regularised least-squares problem on B
  replayed transitions (fitted Q iteration, or LSTD-Q); between solutions gradients train it like the rest
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from bdqn.agents import ddqn
from bdqn.config.settings import setting

if TYPE_CHECKING:
    from bdqn.qlearning.choices import Choices


@dataclass(frozen=True)
class Settings(ddqn.Exploration):
    """Epsilon-greedy exploration, and the least-squares problem."""

    solver: Literal["fqi", "lstd"] = setting(
        "fqi", "one step of fitted Q iteration; or lstd: LSTD-Q, the values of the greedy policy"
    )
    ridge: float = setting(1.0, "weight of the squared distance from the trained last layer", minimum=1e-12)
    posterior_batch_size: int = setting(10_000, "B: transitions per solution", minimum=1)
    posterior_update_interval: int = setting(1_000, "T^BT: decisions between solutions", minimum=1)


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with a last layer that is solved for."""
    from functools import partial

    from bdqn.networks.heads import LeastSquaresHead, TemporalDifferenceHead
    from bdqn.qlearning.last_layer import Fit
    from bdqn.qlearning.targets import double_q

    lstd = settings.solver == "lstd"
    return replace(
        ddqn.choices(ddqn.Settings()),
        policy=ddqn.policy(settings),
        head=partial(TemporalDifferenceHead if lstd else LeastSquaresHead, ridge=settings.ridge),
        fit=Fit(
            settings.posterior_update_interval,
            settings.posterior_batch_size,
            bootstrap=double_q,
            at_start=False,
            keeps_rows=lstd,
            joint=lstd,
        ),
    )
