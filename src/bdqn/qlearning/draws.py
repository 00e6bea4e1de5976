"""Draws: which Q-function is trained, which ones act, and when each is drawn again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from bdqn.qlearning.finite_checks import check_draw

if TYPE_CHECKING:
    from torch import Tensor

    from bdqn.networks.heads import Head, Index
    from bdqn.replay.duplicates import Recurrence


@dataclass(frozen=True)
class Redraw:
    """When the acting index is drawn again; ``steps`` 0 means at the start of each episode."""

    steps: int = 0  # T^S
    acting_steps: int = 0  # T~^S: a faster draw that only acts, in each environment's own steps; 0: none

    def __str__(self) -> str:
        return {0: "episode", 1: "decision"}.get(self.steps, f"{self.steps:,} decisions")


class Draws:
    """One index w for training, and one acting index w~ for each of N environments.

    With one environment and one schedule they are the same draw, as in the paper. Without a ``redraw`` schedule the
    head's mean stands for all of them.
    """

    metric_names: tuple[str, ...] = ()

    def __init__(self, head: Head, redraw: Redraw | None, num_envs: int, rng: np.random.Generator) -> None:
        self._head, self._redraw, self._num_envs, self._rng = head, redraw, num_envs, rng
        self._steps = 0  # decisions, over all environments
        self._env_steps = 0  # decisions of each environment
        self._nowhere = np.zeros(num_envs, np.bool_)
        self.training: Index = None
        self.acting: Index = None
        self.renew()

    def apart(self, num_envs: int, rng: np.random.Generator) -> Draws:
        """Draws of the same kind to act by apart from training, which leave these as they are."""
        return Draws(self._head, self._redraw, num_envs, rng)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What kind of draw acts in each environment, where there are several kinds."""
        return ()

    @property
    def at_random(self) -> NDArray[np.bool_]:
        """In which environments no draw acts for now, but chance."""
        return self._nowhere

    def renew(self) -> None:
        """Draw everything again: a draw belongs to the posterior that it was drawn from."""
        self._renew_training()
        self.acting = None  # the next ones may have another shape
        self._renew_acting(np.arange(self._num_envs))

    def fitted(self, recurrence: Recurrence) -> None:
        """There is a new posterior, fitted to transitions that recur like this."""
        self.renew()

    def start_episodes(self, envs: NDArray[np.int64]) -> None:
        """These environments begin an episode."""
        if self._redraw is None or self._redraw.steps:
            return
        if 0 in envs:  # the training draw keeps the pace of the first environment
            self._renew_training()
        if not self._redraw.acting_steps:
            self._renew_acting(envs)

    def advance(self, ended: NDArray[np.bool_], reward: NDArray[np.float64], obs: NDArray[Any]) -> None:
        """Each environment has taken one more decision, and stands at ``obs``; in some an episode ended with it."""
        before, self._steps, self._env_steps = self._steps, self._steps + self._num_envs, self._env_steps + 1
        redraw = self._redraw
        if redraw is None:
            return
        if ended.any():
            self.start_episodes(np.flatnonzero(ended))
        if redraw.steps and self._steps // redraw.steps > before // redraw.steps:
            self._renew_training()
        acting_steps = redraw.acting_steps or redraw.steps
        if acting_steps and self._env_steps % acting_steps == 0:
            self._renew_acting(np.arange(self._num_envs))

    def _renew_training(self) -> None:
        if self._redraw is None:
            self.training = self._head.mean_index
            return
        draw = self._draw(1)
        self.training = None if draw is None else draw[0]

    def _renew_acting(self, envs: NDArray[np.int64]) -> None:
        if self.training is None or self._redraw is None:
            return
        if self._num_envs == 1 and not self._redraw.acting_steps:
            self.acting = self.training[None]
        elif self.acting is None or len(envs) == self._num_envs:
            self.acting = self._draw(self._num_envs)
        else:
            draws = self._draw(len(envs))
            assert draws is not None
            self.acting[torch.as_tensor(envs)] = draws

    def _draw(self, count: int) -> Index:
        draw = self._head.draw(self._rng, count)
        check_draw(draw, self._steps)
        return draw

    def metrics(self, phi: Tensor) -> dict[str, float]:
        """What there is to report of them, where it takes features at these."""
        return {}

    def state(self) -> dict[str, Any]:
        indices = {"training": self.training, "acting": self.acting}
        return {
            "indices": {name: index for name, index in indices.items() if index is not None},
            "env_steps": self._env_steps,
        }

    def load_state(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Take back what ``state`` gave."""
        indices = {name: torch.as_tensor(index).clone().to(device) for name, index in state["indices"].items()}
        self.training, self.acting = indices.get("training"), indices.get("acting")
        self._env_steps = int(state["env_steps"])
        self._steps = self._env_steps * self._num_envs
