"""The names of all metrics that an agent will ever report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bdqn.qlearning.diagnostics import POSTERIOR_METRICS
from bdqn.qlearning.regression import ADAPTED_METRICS

if TYPE_CHECKING:
    from bdqn.qlearning.agent import QAgent


def metric_names(agent: QAgent) -> tuple[str, ...]:
    """Of the loss, of fits, of draws, and of bonuses."""
    fit = agent.choices.fit
    loss = ("train/loss",) if agent.choices.learns else ()
    posterior = POSTERIOR_METRICS if fit is not None and agent.online.head.posterior is not None else ()
    adapted = ADAPTED_METRICS if fit is not None and fit.adapts else ()
    counts = agent.bonuses.metric_names if agent.bonuses is not None else ()
    return loss + posterior + adapted + agent.draws.metric_names + counts
