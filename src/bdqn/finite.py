"""Stop at the first value that is not finite, and say where it came from.

A NaN never goes away again: what is trained after it is lost. Looking at every number in every step would cost too
much, so each step looks where it is cheap and where every fault must pass: what the environment gave, and the loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from bdqn.qnetwork import QNetwork
    from bdqn.replay import Batch
    from bdqn.step import Step

_ENVIRONMENT = "The environment gave it: look there, or bound what it gives with a wrapper."
_TRAINING = "Training has diverged: lower learning_rate, or set reward_clip or reward_scaling."


class NonFiniteError(ArithmeticError):
    """A NaN or infinity: the message names the tensor, the decision and what to do."""

    def __init__(self, what: str, step: int, hint: str = _TRAINING) -> None:
        super().__init__(f"{what} is not finite at decision {step:,}. {hint}")
        self.what, self.step = what, step


def check_step(step: Step, now: int) -> None:
    """Refuse what an environment must not give, before anything is learned from it."""
    if _all_finite(step.reward) and _all_finite(step.next_obs) and (step.obs is step.next_obs or _all_finite(step.obs)):
        return
    for name, values in (("reward", step.reward), ("observation", step.next_obs), ("first observation", step.obs)):
        for env, value in enumerate(values):
            if not np.isfinite(value).all():
                raise NonFiniteError(f"The {name} of environment {env} ({_excerpt(value)})", now, _ENVIRONMENT)


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


def check_network(name: str, network: QNetwork, now: int) -> None:
    """Refuse a network with a weight, or a posterior, that is not finite."""
    for part, tensor in _parts(network):
        # A sum is finite only if all its terms are; if it overflows, each is looked at.
        if not math.isfinite(float(tensor.sum())) and not bool(torch.isfinite(tensor).all()):
            raise NonFiniteError(f"The {name} network's {part}", now)


def check_draw(draw: Tensor | None, now: int) -> None:
    """Refuse weights that were drawn from a spoiled posterior."""
    if draw is not None and not math.isfinite(float(draw.sum())) and not bool(torch.isfinite(draw).all()):
        raise NonFiniteError("A draw from the posterior", now)


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


def _excerpt(value: NDArray[Any]) -> str:
    return np.array2string(np.asarray(value).ravel(), threshold=6, edgeitems=3)
