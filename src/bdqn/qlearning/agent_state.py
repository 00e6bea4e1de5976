"""An agent as nested dictionaries: what its checkpoints hold, the replay buffer apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from bdqn.qlearning.metric_names import metric_names
from bdqn.storage.state_files import require_like

if TYPE_CHECKING:
    from bdqn.qlearning.agent import QAgent

# What a checkpoint says of an agent without a closed-form fit.
NO_FIT = {"refit_due": False, "spread_watch": {"streak": 0, "warned": False}}


def agent_state(agent: QAgent) -> dict[str, Any]:
    """Everything but the replay buffer: tensors, arrays and JSON values, not copies."""
    return {
        "online": agent.online.state_dict(),
        "target": agent.target.state_dict(),
        "optimizer": agent.optimizer.state(),
        **agent.online.head.belief_state(),
        **agent.draws.state(),
        **(NO_FIT if agent.last_layer is None else agent.last_layer.state()),
        **({} if agent.bonuses is None else {"bonuses": agent.bonuses.state()}),
        "in_sync": agent.targets.in_sync,
        "steps": agent.steps,
        "updates": agent.updates,
        "reward_unit": agent.targets.reward_unit,
        "metrics": dict(agent.metrics),
        "generators": {name: rng.bit_generator.state for name, rng in agent.rngs.items()},
    }


def load_agent_state(agent: QAgent, state: Mapping[str, Any]) -> None:
    """Take back what ``agent_state`` gave, or what was read from a file; what does not fit is a ValueError."""
    if agent.online.grow_like(state["online"]) and agent.target.grow_like(state["target"]):
        agent.draws.renew()  # they are as wide as the belief
    own = agent.state()
    grown: dict[str, Any] = {name: {} for name in ("metrics", "bonuses") if name in own}  # of any size
    require_like("agent", state, own | grown)
    if not 0 <= float(state["reward_unit"]) < np.inf:
        raise ValueError(f"reward_unit is {state['reward_unit']}.")
    agent.online.load_state_dict(_own_tensors(state["online"]))
    agent.target.load_state_dict(_own_tensors(state["target"]))
    agent.optimizer.load_state(state["optimizer"])
    agent.online.head.load_belief_state(state)
    agent.draws.load_state(state, agent.device)
    if agent.last_layer is not None:
        agent.last_layer.load_state(state)
    if agent.bonuses is not None:
        agent.bonuses.load_state(state["bonuses"])
    agent.targets.in_sync, agent.targets.reward_unit = bool(state["in_sync"]), float(state["reward_unit"])
    agent.steps, agent.updates = int(state["steps"]), int(state["updates"])
    known = metric_names(agent)
    agent.metrics = {name: float(value) for name, value in state["metrics"].items() if name in known}
    for name, rng in agent.rngs.items():
        rng.bit_generator.state = state["generators"][name]


def _own_tensors(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Arrays or tensors as tensors in memory of their own."""
    return {
        name: value.clone() if isinstance(value, Tensor) else torch.from_numpy(value).clone()
        for name, value in values.items()
    }
