"""A recorded training run: the learner's steps, watched by a record, evaluations and a progress display."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from bdqn.evaluation import check_can_evaluate, evaluate
from bdqn.learner import Learner
from bdqn.progress import Progress
from bdqn.record import RunRecord


@dataclass(frozen=True)
class Watch:
    """How often a run is looked at, in decisions."""

    log_freq: int = 1_000
    eval_freq: int = 0  # 0: never
    eval_episodes: int = 10


def train(
    learner: Learner,
    steps: int,
    record: RunRecord,
    watch: Watch,
    progress: Progress,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train for ``steps`` decisions, or until ``stop()`` after one; returns whether all were taken."""
    if watch.eval_freq:
        check_can_evaluate(learner)
    now = learner.num_timesteps
    log_at = _next(now, watch.log_freq)
    evaluate_at = _next(now, watch.eval_freq)
    show_at = time.monotonic()
    for step in learner.steps(steps):
        now = learner.num_timesteps
        for episode in step.episodes:
            record.episode(now, episode)
        if now >= log_at:
            record.metrics(now, learner.agent.read_metrics())
            log_at = _next(now, watch.log_freq)
        if now >= evaluate_at:
            record.evaluation(now, evaluate(learner, watch.eval_episodes, seed=learner.seed))
            evaluate_at = _next(now, watch.eval_freq)
        if time.monotonic() >= show_at:
            progress.show(now, record.mean_return)
            show_at = time.monotonic() + progress.interval
        if stop():
            return False
    progress.show(now, record.mean_return)
    return True


def _next(now: int, interval: int) -> float:
    """The first multiple of ``interval`` after ``now``, wherever the run began; never for 0."""
    return (now // interval + 1) * interval if interval else float("inf")
