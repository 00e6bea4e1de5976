"""On-line updates: between two fits the posterior also learns from what has come in since, each transition once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bdqn.bayes.posterior import Moments
from bdqn.config.settings import SettingError
from bdqn.networks.threads import numpy_threads
from bdqn.qlearning.draws import Draws
from bdqn.qlearning.last_layer import Fit, LastLayerFit
from bdqn.qlearning.regression import RegressionData
from bdqn.qlearning.targets import TDTargets
from bdqn.replay.buffer import Replay


@dataclass(frozen=True)
class Online:
    """When the posterior is updated between fits, and how fast it forgets."""

    interval: int  # decisions between two updates
    forgetting: float = 0.0  # share of all earlier data that each new transition takes the place of


def check_synced(fit: Fit, target_update_interval: int) -> None:
    """Refuse a target network that is updated at other times than the posterior."""
    if fit.growth is None and target_update_interval != fit.interval:
        raise SettingError(
            "On-line updates need features that stay as they are between two refits: set target_update_interval "
            f"({target_update_interval:,}) and posterior_update_interval ({fit.interval:,}) alike, or "
            "online_interval = 0."
        )


class OnlineFit(LastLayerFit):
    """A fit whose data grow until the next one.

    Features are those of the target network, which the fit has made equal to the online network and which stay as they
    are: so sums over old and new transitions are those of one batch, and so is the posterior. Draws are not renewed;
    the next episode's comes from the new posterior.
    """

    def __init__(
        self, fit: Fit, targets: TDTargets, replay: Replay, draws: Draws, rngs: Mapping[str, np.random.Generator]
    ) -> None:
        super().__init__(fit, targets, replay, draws, rngs)
        assert fit.online is not None
        self._online, self._replay = fit.online, replay
        self.moments = self._source.no_data()
        self._next = np.zeros(replay.num_envs, np.int64)  # the first frame of each environment not counted yet

    def schedule(self, decision: int, intervals_passed: int) -> bool:
        """As ever; and learn from new transitions where no fit is due."""
        due = super().schedule(decision, intervals_passed)
        before = decision - self._replay.num_envs
        if self._head.fitted and not self.due and decision // self._online.interval > before // self._online.interval:
            self.update()
        return due

    @torch.no_grad()
    def update(self) -> None:
        """Add what has come in since the last fit or update to the data, and find the posterior given all of them."""
        with numpy_threads():
            env, slot = self._replay.settled(self._next)
            if not len(env):
                return
            self._next = np.maximum(self._next, self._replay.written - self._replay.n_steps)
            self.moments = self.moments.scaled((1 - self._online.forgetting) ** len(env))
            self._source.add_transitions(self.moments, env, slot, self.choice.bootstrap)
            self._head.fit(self.moments, None, self._draw_rng)
            self._target_head.copy_fit(self._head)

    def _data(self, stop: Callable[[], bool]) -> RegressionData | None:
        data = super()._data(stop)
        if data is not None:
            self.moments, self._next = data.moments, self._replay.written - 1  # all but the frame that is now
        return data

    def state(self) -> dict[str, Any]:
        return {**super().state(), "online_data": {**vars(self.moments), "next": self._next}}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        parts = {name: np.array(value) for name, value in state["online_data"].items()}
        self._next = parts.pop("next")
        self.moments = Moments(**parts)
