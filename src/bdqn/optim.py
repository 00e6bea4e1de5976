"""Graves' RMSProp (2013, Eq. 38-45), which DQN was trained with; PyTorch's own puts epsilon outside the root."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from bdqn.settings import Training


class GravesRMSProp(torch.optim.Optimizer):
    """Centered RMSProp with momentum: step = momentum * step - lr * grad / sqrt(E[grad^2] - E[grad]^2 + eps)."""

    # None may be called "step": PyTorch takes that for a counter and leaves it on its old device when loading.
    _AVERAGES = ("grad_mean", "grad_square", "last_step")

    def __init__(
        self, params: Iterable[Tensor], lr: float, decay: float = 0.95, momentum: float = 0.95, eps: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "momentum": momentum, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads = [p.grad for p in params]
            states = [self._state_of(p) for p in params]
            mean, square, step = ([s[k] for s in states] for k in self._AVERAGES)
            torch._foreach_lerp_(mean, grads, 1 - group["decay"])
            torch._foreach_mul_(square, group["decay"])
            torch._foreach_addcmul_(square, grads, grads, 1 - group["decay"])
            root = torch._foreach_addcmul(square, mean, mean, -1)
            # E[g^2] - E[g]^2 is a variance, but rounding can leave it slightly below zero.
            torch._foreach_clamp_min_(root, 0.0)
            torch._foreach_add_(root, group["eps"])
            torch._foreach_sqrt_(root)
            torch._foreach_mul_(step, group["momentum"])
            torch._foreach_addcdiv_(step, grads, root, -group["lr"])
            torch._foreach_add_(params, step)

    def _state_of(self, parameter: Tensor) -> dict[str, Any]:
        state = self.state[parameter]
        if not state:
            state.update({k: torch.zeros_like(parameter) for k in self._AVERAGES})
        return dict(state)


def averages(optimizer: torch.optim.Optimizer) -> tuple[str, ...]:
    """What an optimizer keeps of each parameter."""
    return GravesRMSProp._AVERAGES if isinstance(optimizer, GravesRMSProp) else ("step", "exp_avg", "exp_avg_sq")


def make_optimizer(params: Iterable[Tensor], training: Training) -> torch.optim.Optimizer:
    """The optimizer that the training settings name."""
    if training.optimizer == "rmsprop":
        return GravesRMSProp(
            params, training.learning_rate, training.momentum, training.momentum, training.optimizer_eps
        )
    return torch.optim.Adam(params, lr=training.learning_rate, eps=training.optimizer_eps, fused=True)
