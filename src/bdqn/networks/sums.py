"""Sums over the rows of a regression, where the rows are: on the host, or on the device that computed them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bdqn.bayes.posterior import Moments

Integers = NDArray[np.int64]


class Sums(Protocol):
    """Takes rows a few thousand at a time."""

    def add(self, rows: Tensor, action: Integers, target: Tensor, counts: Integers | None) -> None:
        """Add each row (n, d) to the sums of the action taken there; ``counts``: how many equal ones it stands for."""


class HostSums:
    """Moments that grow in place; rows of a device are copied to the host first."""

    def __init__(self, moments: Moments) -> None:
        self.moments = moments

    def add(self, rows: Tensor, action: Integers, target: Tensor, counts: Integers | None) -> None:
        self.moments.add_by_action(rows.cpu().numpy(), action, target.cpu().numpy(), counts)


class DeviceSums:
    """The same in a device's memory: its rows never leave it, and it never waits; the sums are copied once, at the end.

    B rows of d numbers would be copied otherwise, for sums of d^2 numbers.
    """

    def __init__(self, dim: int, num_actions: int, device: torch.device) -> None:
        self._gram = torch.zeros(num_actions, dim, dim, dtype=torch.float64, device=device)
        self._cross = torch.zeros(num_actions, dim, dtype=torch.float64, device=device)
        self._squares = torch.zeros(num_actions, dtype=torch.float64, device=device)
        self._count = np.zeros(num_actions)

    def add(self, rows: Tensor, action: Integers, target: Tensor, counts: Integers | None) -> None:
        # The host knows the actions: rows in their order can be cut without asking the device where.
        order = np.argsort(action, kind="stable")
        count = np.ones(len(action)) if counts is None else counts.astype(np.float64)
        there = torch.from_numpy(order).to(rows.device)
        root = torch.from_numpy(np.sqrt(count[order])).to(rows.device)
        x, y = root[:, None] * rows[there], root * target.double()[there]
        ends = np.cumsum(np.bincount(action, minlength=len(self._count)))
        for which, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            x_a, y_a = x[start:end], y[start:end]
            self._gram[which].addmm_(x_a.T, x_a)
            self._cross[which] += x_a.T @ y_a
            self._squares[which] += y_a @ y_a
        self._count += np.bincount(action, count, minlength=len(self._count))

    @property
    def moments(self) -> Moments:
        gram, cross, squares = (part.cpu().numpy() for part in (self._gram, self._cross, self._squares))
        return Moments(gram, cross, squares, self._count.copy())


def sums_on(device: torch.device, dim: int, num_actions: int) -> HostSums | DeviceSums:
    """Empty sums for rows that this device computes."""
    if device.type == "cpu":
        return HostSums(Moments.zero(dim, (num_actions,)))
    return DeviceSums(dim, num_actions, device)
