"""Stop at the first value that is not finite, and say where it came from.

A NaN never goes away again: what is trained after it is lost. Looking at every number in every step would cost too
much, so each step looks where it is cheap and where every fault must pass: what the environment gave, and the loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from bdqn.envs.interaction import Step
    from bdqn.networks.optimizers import Optimizer
    from bdqn.networks.qnetwork import QNetwork
    from bdqn.qlearning.agent import QAgent
    from bdqn.replay.batch import Batch

_ENVIRONMENT = "The environment gave it: look there, or bound what it gives with a wrapper."
_MEMORY = "It was when it came in: look for code that writes there, or for faulty memory."
_TRAINING = "Training has diverged: lower learning_rate, or set reward_clip or reward_scaling."
_LARGEST = float(np.finfo(np.float32).max)  # the replay buffer keeps rewards in float32


class NonFiniteError(ArithmeticError):
    """A NaN or infinity: the message names the tensor, the decision and what to do."""

    def __init__(self, what: str, step: int | None, hint: str = _TRAINING) -> None:
        super().__init__(f"{what} is not finite{'' if step is None else f' at decision {step:,}'}. {hint}")
        self.what, self.step = what, step


def check_step(step: Step, now: int) -> None:
    """Refuse what an environment must not give, before anything is learned from it."""
    rewards_fit = np.vdot(step.reward, step.reward) <= _LARGEST**2
    if rewards_fit and _all_finite(step.next_obs) and (step.obs is step.next_obs or _all_finite(step.obs)):
        return
    with np.errstate(over="ignore"):
        _look_at("reward", step.reward.astype(np.float32), now)
    _look_at("observation", step.next_obs, now)
    check_start(step.obs, now)


def check_start(obs: NDArray[Any], now: int) -> None:
    """Refuse the first observations of episodes."""
    _look_at("first observation", obs, now)


def check_loss(loss: float, now: int, batch: Batch, online: QNetwork, target: QNetwork) -> None:
    """Refuse a loss that would spoil the weights, and name what spoiled it."""
    if math.isfinite(loss):
        return
    for name, values in (("observations", batch.obs), ("next observations", batch.next_obs), ("rewards", batch.reward)):
        if not np.isfinite(values).all():
            raise NonFiniteError(f"Among the replayed {name} a number", now, _ENVIRONMENT)
    check_network("online", online, now)
    check_network("target", target, now)
    raise NonFiniteError(f"The loss ({loss})", now)


def check_agent(agent: QAgent) -> None:
    """Refuse any weight, any part of the belief, any draw and any of the optimizer's averages that is not finite."""
    check_network("online", agent.online, agent.steps)
    check_network("target", agent.target, agent.steps)
    check_optimizer(agent.optimizer, agent.steps)
    for draw in (agent.draws.training, agent.draws.acting):
        check_draw(draw, agent.steps)


def check_network(name: str, network: QNetwork, now: int) -> None:
    """Refuse a network with a weight, or a posterior, that is not finite."""
    for part, tensor in _parts(network):
        _require_finite(f"The {name} network's {part}", tensor, now)


def check_optimizer(optimizer: Optimizer, now: int) -> None:
    """Refuse an average that has overflowed: its weight would never move again, and nothing else would tell."""
    state = optimizer.state()
    for average in optimizer.averages:
        for name, tensor in state[average].items():
            _require_finite(f"The optimizer's {average} of {name}", tensor, now)


def check_draw(draw: Tensor | None, now: int) -> None:
    """Refuse weights that were drawn from a spoiled posterior."""
    if draw is not None:
        _require_finite("A draw from the posterior", draw, now)


def check_records(records: Mapping[str, NDArray[Any]], env: int, start: int) -> None:
    """Refuse a stretch of the replay buffer that has gone bad since it was seen; ``start`` is its first frame."""
    for name, values in records.items():
        if not _all_finite(values):
            frame = start + int(np.argwhere(~np.isfinite(values))[0][0])
            raise NonFiniteError(f"Frame {frame:,} of environment {env} in the replay buffer ({name})", None, _MEMORY)


def _require_finite(what: str, tensor: Tensor, now: int) -> None:
    # A sum is finite only if all its terms are; if it overflows, each is looked at.
    if not math.isfinite(float(tensor.sum())) and not bool(torch.isfinite(tensor).all()):
        raise NonFiniteError(what, now)


def _parts(network: QNetwork) -> Iterator[tuple[str, Tensor]]:
    yield from ((name, tensor.detach()) for name, tensor in network.state_dict().items() if tensor.is_floating_point())
    if network.head.posterior is not None:
        posterior = network.head.posterior
        for name in ("mean", "factor", "noise_var"):
            yield f"posterior {name}", torch.from_numpy(getattr(posterior, name))


def _all_finite(values: NDArray[Any]) -> bool:
    if values.dtype.kind != "f":
        return True
    # A dot product is finite only if all numbers are, and costs a quarter of looking at each; it may overflow.
    return math.isfinite(np.vdot(values, values)) or bool(np.isfinite(values).all())


def _look_at(name: str, values: NDArray[Any], now: int) -> None:
    for env, value in enumerate(values):
        bad = np.argwhere(~np.isfinite(value))
        if len(bad):
            place = tuple(bad[0])
            where = f" at {[int(i) for i in place]}" if place else ""
            raise NonFiniteError(
                f"The {name} of environment {env} ({value[place]} as {value.dtype}{where})", now, _ENVIRONMENT
            )
