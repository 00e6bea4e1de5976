"""The workload of all contestants, and the contestants' interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import gymnasium as gym

from bdqn.envs import make_env

EPSILON = 0.05
REFERENCE, OURS = "Stable-Baselines3 DQN", "bdqn: Double DQN"  # compared by the targets


class Contestant(Protocol):
    """A learner to be timed."""

    def __call__(self, decisions: int) -> None:
        """Take exactly this many more decisions, counted over all environments, with learning."""


@dataclass(frozen=True)
class Work:
    """The workload of every contestant. All counts are decisions over all environments."""

    env_id: str
    num_envs: int = 1
    features: int = 128  # width of the dense layers
    layers: int = 2  # dense layers for flat observations; images have one after their convolutions
    batch_size: int = 32
    decisions_per_update: int = 4
    learning_starts: int = 500
    buffer_size: int = 20_000
    learning_rate: float = 1e-4
    gamma: float = 0.99
    target_update_interval: int = 1_000

    def __post_init__(self) -> None:
        if self.cycle % self.num_envs or self.cycle % self.decisions_per_update:
            raise ValueError(
                f"{self.num_envs} environments do not fit one update per {self.decisions_per_update} decisions."
            )
        if self.target_update_interval % self.cycle:
            raise ValueError(f"target_update_interval must be a multiple of {self.cycle}.")

    @property
    def cycle(self) -> int:
        """Decisions in a cycle of whole steps of all environments and whole updates."""
        return max(self.num_envs, self.decisions_per_update)

    @property
    def updates_per_cycle(self) -> int:
        return self.cycle // self.decisions_per_update

    def cycles(self, decisions: int) -> int:
        """The number of cycles in this many decisions. Fractions would not be the same work for all contestants."""
        if decisions % self.cycle:
            raise ValueError(f"{decisions} decisions are not a multiple of {self.cycle}.")
        return decisions // self.cycle

    def env_makers(self) -> list[Callable[[], gym.Env[Any, Any]]]:
        return [partial(make_env, self.env_id) for _ in range(self.num_envs)]
