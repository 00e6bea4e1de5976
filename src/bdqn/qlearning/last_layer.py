"""The closed-form last layer: when a fit is due, and the fit itself, Eq. (w) of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from bdqn.bayes.numerics import PosteriorError
from bdqn.networks.heads import regression_head
from bdqn.networks.threads import numpy_threads
from bdqn.qlearning.diagnostics import PosteriorWatch, Rows, calibration
from bdqn.qlearning.draws import Draws
from bdqn.qlearning.growth import Growth, GrowthClock
from bdqn.qlearning.regression import RegressionData, RegressionSource
from bdqn.qlearning.targets import Bootstrap, TDTargets
from bdqn.replay.batch import Batch
from bdqn.replay.buffer import Replay
from bdqn.replay.duplicates import Recurrence, always

if TYPE_CHECKING:
    from bdqn.qlearning.online_fit import Online

NEVER: Callable[[], bool] = lambda: False  # noqa: E731


@dataclass(frozen=True)
class Fit:
    """When, and from what, the head's last layer is fitted."""

    interval: int  # T^BT
    batch_size: int  # B
    bootstrap: Bootstrap
    at_start: bool = True  # fit once as soon as learning starts, rather than one interval later
    decay: float = 0.0  # share of the past fits' data that is kept; 0: the past is forgotten
    parts: int = 1  # of an episode, each with a regression of its own
    frozen_features: int = 0  # of its regressors, how many are a frozen prior's
    frozen_features_most: int = 0  # the same once they have grown, where observations recur; 0: they do not grow
    keeps_rows: bool = (
        False  # the head wants all rows of a fit: to back its mean and draws up, or to solve for both ends
    )
    joint: bool = False  # one system for all actions together, rather than one for each
    with_returns: bool = False  # the head wants to know which discounted returns were seen
    distinct: bool = False  # B counts transitions that differ: where observations recur, a fit sees all of the buffer
    growth: Growth | None = None  # instead of fixed intervals, for fits and target updates alike
    adapts: bool = False  # before a fit, frozen features and unbounded observations follow what has been seen
    uses_frozen: Callable[[Recurrence], bool] = always  # where it adapts: whether frozen features take part
    online: Online | None = None  # updates of the posterior between fits
    from_minibatches: bool = False  # from what the updates have seen since the last fit, rather than from B replayed

    @property
    def shortest_interval(self) -> int:
        """Decisions between two fits, at least."""
        return self.growth.least if self.growth else self.interval

    @property
    def longest_interval(self) -> int:
        """Decisions between two fits, once the data are many."""
        return self.growth.most if self.growth else self.interval


class LastLayerFit:
    """Fits the last layer of the online network, and copies it to the target network."""

    def __init__(
        self, fit: Fit, targets: TDTargets, replay: Replay, draws: Draws, rngs: Mapping[str, np.random.Generator]
    ) -> None:
        """``rngs`` are the agent's, of which it uses "refit" and "draw"."""
        self.choice = fit
        self.due = False  # true between decisions only where a fit was interrupted
        self.recurrence = Recurrence()  # of the transitions of the last fit, where it sees all of the buffer
        self._clock = None if fit.growth is None else GrowthClock(fit.growth)
        self._head, self._target_head = regression_head(targets.online.head), regression_head(targets.target.head)
        self._draws, self._rng, self._draw_rng = draws, rngs["refit"], rngs["draw"]
        self._source = RegressionSource(targets, replay, draws, self._rng)
        self._watch = PosteriorWatch()

    def schedule(self, decision: int, intervals_passed: int) -> bool:
        """Whether a fit has become due: an interval has passed, or the data have grown; or there was none yet.

        Where transitions recur, the data have grown as soon as there are enough that differ from all others.
        """
        if self._clock is not None:
            now_due = self._clock.due(decision) or (
                self.recurrence.is_common
                and self._clock.due_to_news(decision, self.recurrence.kinds, self._source.kinds_of_transition)
            )
        else:
            now_due = bool(intervals_passed) or (self.choice.at_start and not self._head.fitted)
        self.due |= now_due
        return now_due

    @torch.no_grad()
    def prepare(self) -> dict[str, float]:
        """Let frozen features and the range of observations follow the data, in both networks."""
        with numpy_threads():
            uses_frozen = self.choice.uses_frozen(self.recurrence)
            return self._source.adapt(self.recurrence, uses_frozen=uses_frozen) if self.choice.adapts else {}

    def collect(self, phi: Tensor, batch: Batch, target: Tensor) -> None:
        """What one update has seen; of no use to a fit that reads the replay buffer."""

    @torch.no_grad()
    def run(self, decision: int, stop: Callable[[], bool] = NEVER) -> dict[str, float] | None:
        """Fit, and give the metrics of it; None where ``stop()`` held before the end, and then nothing has changed."""
        before = self._rng.bit_generator.state
        try:
            # The network has the cores: NumPy's threads would keep one busy, waiting for more to do.
            with numpy_threads(1):
                has_belief = self._head.posterior is not None and self._head.fitted
                unseen, data = self.unseen_rows() if has_belief else None, self._data(stop)
            if data is None:
                self._rng.bit_generator.state = before
                return None
            with numpy_threads():
                return self._fit(data, unseen)
        except PosteriorError as error:
            raise PosteriorError(f"At decision {decision:,}: {error}") from error

    def _fit(self, data: RegressionData, unseen: Rows | None) -> dict[str, float]:
        metrics = {} if unseen is None else calibration(self._head, unseen)
        self._head.fit(data.moments, data.transitions, self._draw_rng)
        self._target_head.copy_fit(self._head)
        self.recurrence = data.recurrence
        self._draws.fitted(data.recurrence)
        metrics |= self._watch.fitted(self._head, data.some_phi, self._draws.training, data.moments)
        return metrics | self._draws.metrics(data.some_phi)

    def _data(self, stop: Callable[[], bool]) -> RegressionData | None:
        """The data of this fit; None where ``stop()`` holds."""
        choice = self.choice
        data = self._source.replayed(choice.batch_size, choice.bootstrap, choice.keeps_rows, choice.distinct, stop)
        if data is None or data.transitions is None or not choice.with_returns:
            return data
        returns, recurrence = self._source.returns_seen(), data.recurrence
        known = replace(data.transitions, returns=returns, recur=recurrence.is_common, chance=recurrence.chance)
        return replace(data, transitions=known)

    def unseen_rows(self) -> Rows | None:
        """What the belief in force was not fitted to; None where there is nothing new."""
        return self._source.unseen(self.choice.shortest_interval, self.choice.bootstrap)

    def state(self) -> dict[str, Any]:
        clock = self._clock
        grown = {} if clock is None else {"last_due": clock.last_due, "last_look": clock.last_look}
        recurrence = {} if clock is None else {"recurrence": asdict(self.recurrence)}
        return {"refit_due": self.due, "spread_watch": vars(self._watch), **grown, **recurrence}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` gave."""
        self.due = bool(state["refit_due"])
        if self._clock is not None:
            self._clock.last_due, self._clock.last_look = int(state["last_due"]), int(state["last_look"])
            self.recurrence = Recurrence.restored(state["recurrence"])
        vars(self._watch).update({name: state["spread_watch"][name] for name in vars(self._watch)})
