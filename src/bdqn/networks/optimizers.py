"""Adam, and Graves' RMSProp (2013, Eq. 38-45), which DQN was trained with; PyTorch's own puts epsilon outside the root.

PyTorch's optimizers spend most of a small network's step on what surrounds it: groups, hooks, profiling. These are the
steps alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from bdqn.config.settings import Training

Tensors = list[Tensor]


class Optimizer(ABC):
    """Moves parameters by their gradients, and keeps averages of these."""

    averages: ClassVar[tuple[str, ...]]  # what is kept of each parameter

    def __init__(self, parameters: Iterable[tuple[str, Tensor]], lr: float) -> None:
        """Parameters come with their names; frozen ones are left out."""
        named = {name: parameter for name, parameter in parameters if parameter.requires_grad}
        self.lr = lr
        self._names, self._parameters = list(named), list(named.values())
        # As each parameter lies in memory: a fused step looks at nothing else.
        self._averages = [[torch.zeros_like(p) for p in self._parameters] for _ in self.averages]
        self._steps = torch.zeros((), device=self._parameters[0].device if named else None)

    def clear(self) -> None:
        """Forget all gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        columns: list[list[Any]] = [self._parameters, [p.grad for p in self._parameters], *self._averages]
        moving = [i for i, gradient in enumerate(columns[1]) if gradient is not None]
        if len(moving) < len(self._parameters):
            columns = [[column[i] for i in moving] for column in columns]
        if moving:
            self._steps += 1
            self._move(*columns)
            increment_version(columns[0])  # a fused step does not say that it has written

    @abstractmethod
    def _move(self, parameters: Tensors, gradients: Tensors, *averages: Tensors) -> None:
        """Take one step, in place."""

    def state(self) -> dict[str, Any]:
        """All that is not a setting (not copies): the number of steps, and each average by its parameter's name."""
        named = (dict(zip(self._names, tensors, strict=True)) for tensors in self._averages)
        return {"steps": self._steps, **dict(zip(self.averages, named, strict=True))}

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` gave, as tensors or arrays of the same names and shapes."""
        self._steps.copy_(torch.as_tensor(state["steps"]))
        for average, tensors in zip(self.averages, self._averages, strict=True):
            for name, tensor in zip(self._names, tensors, strict=True):
                tensor.copy_(torch.as_tensor(state[average][name]))


class Adam(Optimizer):
    """Kingma and Ba (2015), with their decays."""

    averages = ("exp_avg", "exp_avg_sq")

    def __init__(self, parameters: Iterable[tuple[str, Tensor]], lr: float, eps: float) -> None:
        super().__init__(parameters, lr)
        self.eps = eps

    def _move(self, parameters: Tensors, gradients: Tensors, *averages: Tensors) -> None:
        mean, square = averages
        torch._fused_adam_(
            parameters,
            gradients,
            mean,
            square,
            [],  # of AMSGrad
            [self._steps] * len(parameters),
            lr=self.lr,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )


class GravesRMSProp(Optimizer):
    """Centered RMSProp with momentum: step = momentum * step - lr * grad / sqrt(E[grad^2] - E[grad]^2 + eps)."""

    averages = ("grad_mean", "grad_square", "last_step")

    def __init__(
        self,
        parameters: Iterable[tuple[str, Tensor]],
        lr: float,
        decay: float = 0.95,
        momentum: float = 0.95,
        eps: float = 0.01,
    ) -> None:
        super().__init__(parameters, lr)
        self.decay, self.momentum, self.eps = decay, momentum, eps

    def _move(self, parameters: Tensors, gradients: Tensors, *averages: Tensors) -> None:
        mean, square, step = averages
        torch._foreach_lerp_(mean, gradients, 1 - self.decay)
        torch._foreach_mul_(square, self.decay)
        torch._foreach_addcmul_(square, gradients, gradients, 1 - self.decay)
        root = torch._foreach_addcmul(square, mean, mean, -1)
        # E[g^2] - E[g]^2 is a variance, but rounding can leave it slightly below zero.
        torch._foreach_clamp_min_(root, 0.0)
        torch._foreach_add_(root, self.eps)
        torch._foreach_sqrt_(root)
        torch._foreach_mul_(step, self.momentum)
        torch._foreach_addcdiv_(step, gradients, root, -self.lr)
        torch._foreach_add_(parameters, step)


def make_optimizer(parameters: Iterable[tuple[str, Tensor]], training: Training) -> Optimizer:
    """The optimizer that the training settings name."""
    lr, eps = training.learning_rate, training.optimizer_eps
    if training.optimizer == "rmsprop":
        return GravesRMSProp(parameters, lr, training.momentum, training.momentum, eps)
    return Adam(parameters, lr, eps)
