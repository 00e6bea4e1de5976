"""Fits to data that outlast a fit: a share of what past fits have seen, or what updates have seen since the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bdqn.bayes.posterior import Moments
from bdqn.networks.heads import TrainingIndices
from bdqn.networks.sums import HostSums
from bdqn.networks.threads import numpy_threads
from bdqn.qlearning.diagnostics import Rows
from bdqn.qlearning.draws import Draws
from bdqn.qlearning.last_layer import Fit, LastLayerFit
from bdqn.qlearning.regression import RegressionData
from bdqn.qlearning.targets import Bootstrap, TDTargets
from bdqn.replay.batch import Batch
from bdqn.replay.buffer import Replay


class DecayingFit(LastLayerFit):
    """A fit that also counts the data of past ones, each time a smaller share of them."""

    def __init__(
        self, fit: Fit, targets: TDTargets, replay: Replay, draws: Draws, rngs: Mapping[str, np.random.Generator]
    ) -> None:
        super().__init__(fit, targets, replay, draws, rngs)
        self.collected = self._source.no_data()

    def _data(self, stop: Callable[[], bool]) -> RegressionData | None:
        new = super()._data(stop)
        if new is None:
            return None
        moments = self.collected.joined(new.moments)
        self.collected = moments.scaled(self.choice.decay)
        return replace(new, moments=moments)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "collected": vars(self.collected)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self.collected = Moments(**{name: np.array(value) for name, value in state["collected"].items()})


class MinibatchFit(DecayingFit):
    """A fit to the features and targets that the updates have computed anyway: no pass over replayed transitions."""

    def __init__(
        self,
        fit: Fit,
        targets: TDTargets,
        replay: Replay,
        draws: Draws,
        rngs: Mapping[str, np.random.Generator],
        bootstrap: Bootstrap,
    ) -> None:
        """``bootstrap`` is that of the updates."""
        super().__init__(fit, targets, replay, draws, rngs)
        self._update_bootstrap = bootstrap

    def collect(self, phi: Tensor, batch: Batch, target: Tensor) -> None:
        """Take note of the rows of one update."""
        with numpy_threads():
            self._source.add(HostSums(self.collected), phi.detach(), torch.from_numpy(batch.action), target)

    def _data(self, stop: Callable[[], bool]) -> RegressionData:
        data = RegressionData(self._source.counted_once(self.collected), self._source.some_features())
        self.collected = self.collected.scaled(self.choice.decay)
        return data

    def unseen_rows(self) -> Rows | None:
        return self._source.unseen(self.choice.interval, self._update_bootstrap, self._update_indices)

    def _update_indices(self, rows: int) -> TrainingIndices:
        return self._head.training_indices(self._draws.training, deepcopy(self._draw_rng), rows)
