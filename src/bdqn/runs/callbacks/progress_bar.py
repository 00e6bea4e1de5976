"""A progress bar for training in Python: in a terminal, in a notebook, or as lines in a file."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bdqn.runs.callbacks.base import Callback
from bdqn.runs.progress import evaluation_line, progress
from bdqn.runs.recent import RecentEpisodes

if TYPE_CHECKING:
    from bdqn.envs.interaction import Step
    from bdqn.learner import Learner
    from bdqn.runs.evaluation import Evaluation


class ProgressBar(Callback):
    """Shows decisions, the mean return of the last 100 episodes, speed and the time left."""

    def on_start(self, learner: Learner, total_steps: int) -> None:
        self._recent, self._open = RecentEpisodes(), ExitStack()
        self._display = self._open.enter_context(progress(total_steps, quiet=False, first=learner.num_timesteps))
        self._show_at = time.monotonic()

    def on_step(self, learner: Learner, step: Step) -> None:
        self._recent.add(step.episodes)
        if time.monotonic() >= self._show_at:
            self._display.show(learner.num_timesteps, self._recent.mean_return)
            self._show_at = time.monotonic() + self._display.interval

    def on_evaluation(self, learner: Learner, evaluation: Evaluation) -> None:
        self._display.log(evaluation_line(learner.num_timesteps, evaluation))

    def on_end(self, learner: Learner) -> None:
        self._display.show(learner.num_timesteps, self._recent.mean_return)
        self._open.close()
