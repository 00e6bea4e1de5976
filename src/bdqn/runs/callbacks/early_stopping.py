"""Ends training that has stopped to improve."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bdqn.config.settings import SettingError, nearest
from bdqn.qlearning.metric_names import metric_names
from bdqn.runs.callbacks.base import Callback
from bdqn.runs.recent import ROLLOUT_METRICS

if TYPE_CHECKING:
    from bdqn.learner import Learner
    from bdqn.runs.evaluation import Evaluation

EVALUATED = "eval/mean_reward"


class EarlyStopping(Callback):
    """Stops when a metric has not risen by more than ``min_delta`` in ``patience`` looks, or reaches ``stop_at``."""

    def __init__(
        self, metric: str = EVALUATED, patience: int = 5, min_delta: float = 0.0, stop_at: float = float("inf")
    ) -> None:
        """``metric`` is that of evaluations, or one of the rows of metrics, such as ``rollout/ep_rew_mean``."""
        if patience < 1:
            raise SettingError(f"patience must be at least 1, not {patience!r}.")
        self.metric, self.patience, self.min_delta, self.stop_at = metric, patience, min_delta, stop_at

    def on_start(self, learner: Learner, total_steps: int) -> None:
        known = (EVALUATED, *ROLLOUT_METRICS, *metric_names(learner.agent))
        if self.metric not in known:
            raise SettingError(f"EarlyStopping knows no metric {self.metric!r}; {nearest(self.metric, known)}")
        self.best, self._looks, self._since = -float("inf"), 0, 0

    def on_metrics(self, learner: Learner, metrics: Mapping[str, float]) -> bool | None:
        return self._look(metrics[self.metric]) if self.metric in metrics else None

    def on_evaluation(self, learner: Learner, evaluation: Evaluation) -> bool | None:
        return self._look(evaluation.mean) if self.metric == EVALUATED else None

    def on_end(self, learner: Learner) -> None:
        if not self._looks:
            warnings.warn(
                f"EarlyStopping never saw {self.metric}: set eval_freq or log_freq, or train for longer.", stacklevel=2
            )

    def _look(self, value: float) -> bool:
        """Whether to go on."""
        self._looks += 1
        self._since = 0 if value > self.best + self.min_delta else self._since + 1
        self.best = max(self.best, value)
        return self._since < self.patience and value < self.stop_at
