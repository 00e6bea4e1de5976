"""The closed-form last layer: when a fit is due, what is collected for it, and the fit itself, Eq. (w) of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bdqn.bayes.numerics import PosteriorError
from bdqn.bayes.posterior import Moments
from bdqn.networks.heads import TrainingIndices, regression_head
from bdqn.networks.threads import numpy_threads
from bdqn.qlearning.diagnostics import POSTERIOR_METRICS, PosteriorWatch, Rows, calibration
from bdqn.qlearning.draws import Draws
from bdqn.qlearning.regression import ADAPTED_METRICS, RegressionData, RegressionSource
from bdqn.qlearning.targets import Bootstrap, TDTargets
from bdqn.replay.buffer import Batch, Replay

NEVER: Callable[[], bool] = lambda: False  # noqa: E731


@dataclass(frozen=True)
class Growth:
    """Fit, and update the target network, when the data have grown by a share: early fits are cheap, and decide."""

    share: float
    least: int  # decisions between two fits, at least
    most: int  # and at most


@dataclass(frozen=True)
class Fit:
    """When, and from what, the head's last layer is fitted."""

    interval: int  # T^BT
    batch_size: int  # B
    bootstrap: Bootstrap
    at_start: bool = True  # fit once as soon as learning starts, rather than one interval later
    decay: float = 0.0  # share of the past fits' data that is kept; 0: the past is forgotten
    frozen_features: int = 0  # of its regressors, how many are a frozen prior's
    keeps_rows: bool = False  # the head wants all rows of a fit, to back its mean and draws up
    distinct: bool = False  # B counts transitions that differ: where observations recur, a fit sees all of the buffer
    growth: Growth | None = None  # instead of fixed intervals, for fits and target updates alike
    adapts: bool = False  # before a fit, frozen features and unbounded observations follow what has been seen
    from_minibatches: bool = False  # from what the updates have seen since the last fit, rather than from B replayed

    @property
    def longest_interval(self) -> int:
        """Decisions between two fits, once the data are many."""
        return self.growth.most if self.growth else self.interval


class LastLayerFit:
    """Fits the last layer of the online network, and copies it to the target network."""

    def __init__(
        self,
        fit: Fit,
        targets: TDTargets,
        replay: Replay,
        draws: Draws,
        rngs: Mapping[str, np.random.Generator],
        bootstrap: Bootstrap,
    ) -> None:
        """``rngs`` are the agent's, of which it uses "refit" and "draw"; ``bootstrap`` is that of its updates."""
        self.choice = fit
        self.due = False  # true between decisions only where a fit was interrupted
        self._last_due = -1  # the decision at which a fit was last due, where that goes by growth; -1: never
        self._head, self._target_head = regression_head(targets.online.head), regression_head(targets.target.head)
        self._draws, self._rng, self._draw_rng = draws, rngs["refit"], rngs["draw"]
        self._update_bootstrap = bootstrap
        self._source = RegressionSource(targets, replay, draws, self._rng)
        self._watch = PosteriorWatch()
        self.collected: Moments | None = None  # data of the regression that outlast a fit
        if fit.decay or fit.from_minibatches:
            self.collected = self._source.no_data()

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Every metric that ``run`` reports."""
        adapted = ADAPTED_METRICS if self.choice.adapts else ()
        return (POSTERIOR_METRICS if self._head.posterior is not None else ()) + adapted

    def schedule(self, intervals_passed: int) -> None:
        """A fit is due if an interval has passed since the last decision, or if there was none yet."""
        if intervals_passed or (self.choice.at_start and not self._head.fitted):
            self.due = True

    def schedule_by_growth(self, decision: int) -> bool:
        """Whether a fit is due because the data have grown enough since the last one."""
        growth = self.choice.growth
        assert growth is not None
        gap = min(growth.most, max(growth.least, growth.share * self._last_due))
        if self._last_due >= 0 and decision - self._last_due < gap:
            return False
        self.due, self._last_due = True, decision
        return True

    @torch.no_grad()
    def prepare(self) -> dict[str, float]:
        """Let frozen features and the range of observations follow the data; both networks are equal here."""
        with numpy_threads():
            return self._source.adapt() if self.choice.adapts else {}

    def collect(self, phi: Tensor, batch: Batch, target: Tensor) -> None:
        """Take note of the rows of one update, where the data come from minibatches."""
        if self.choice.from_minibatches:
            assert self.collected is not None
            with numpy_threads():
                self._source.add(self.collected, phi.detach(), torch.from_numpy(batch.action), target)

    @torch.no_grad()
    def run(self, decision: int, stop: Callable[[], bool] = NEVER) -> dict[str, float] | None:
        """Fit, and give the metrics of it; None where ``stop()`` held before the end, and then nothing has changed."""
        before = self._rng.bit_generator.state
        try:
            # The network has the cores: NumPy's threads would keep one busy, waiting for more to do.
            with numpy_threads(1):
                unseen, data = self.unseen_rows(), self._data(stop)
            if data is None:
                self._rng.bit_generator.state = before
                return None
            with numpy_threads():
                return self._fit(data, unseen)
        except PosteriorError as error:
            raise PosteriorError(f"At decision {decision:,}: {error}") from error

    def _fit(self, data: RegressionData, unseen: Rows | None) -> dict[str, float]:
        moments = data.moments
        if self.collected is not None:
            moments = moments if self.choice.from_minibatches else self.collected.joined(moments)
            past = self.collected if self.choice.from_minibatches else moments
            self.collected = past.scaled(self.choice.decay)
        metrics = {} if unseen is None else calibration(self._head, unseen)
        self._head.fit(moments, data.transitions, self._draw_rng)
        self._target_head.copy_fit(self._head)
        self._draws.renew()
        return metrics | self._watch.fitted(self._head, data.some_phi, self._draws.training, moments)

    def _data(self, stop: Callable[[], bool]) -> RegressionData | None:
        """The data of this fit; None where ``stop()`` holds."""
        if self.choice.from_minibatches:
            assert self.collected is not None
            return RegressionData(self._source.counted_once(self.collected), self._source.some_features())
        return self._source.replayed(
            self.choice.batch_size, self.choice.bootstrap, self.choice.keeps_rows, self.choice.distinct, stop
        )

    def unseen_rows(self) -> Rows | None:
        """What the belief in force was not fitted to; None without a belief."""
        if self._head.posterior is None or not self._head.fitted:
            return None
        if self.choice.from_minibatches:
            return self._source.unseen(self.choice.interval, self._update_bootstrap, self._update_indices)
        return self._source.unseen(self.choice.interval, self.choice.bootstrap)

    def _update_indices(self, rows: int) -> TrainingIndices:
        return self._head.training_indices(self._draws.training, deepcopy(self._draw_rng), rows)

    # --- keeping it ---------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        collected = {} if self.collected is None else {"collected": vars(self.collected)}
        grown = {} if self.choice.growth is None else {"last_due": self._last_due}
        return {"refit_due": self.due, "spread_watch": vars(self._watch), **grown, **collected}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` gave."""
        self.due = bool(state["refit_due"])
        if self.choice.growth is not None:
            self._last_due = int(state["last_due"])
        vars(self._watch).update({name: state["spread_watch"][name] for name in vars(self._watch)})
        if self.collected is not None:
            self.collected = Moments(**{name: np.array(value) for name, value in state["collected"].items()})
