"""Training in Python with callbacks: what `bdqn.Learner.learn` does for them between decisions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bdqn.config.settings import build
from bdqn.runs.callbacks.base import Callbacks, Given
from bdqn.runs.evaluation import check_can_evaluate, evaluate
from bdqn.runs.progress import rate
from bdqn.runs.recent import RecentEpisodes
from bdqn.runs.schedule import Schedule, next_multiple

if TYPE_CHECKING:
    from bdqn.envs.interaction import Step
    from bdqn.learner import Learner


def follow(
    learner: Learner, steps: Iterator[Step], total: int, given: Given, log_freq: int, eval_freq: int, episodes: int
) -> None:
    """Take these steps, and tell the callbacks of them until one returns False."""
    intervals = {"log_freq": log_freq, "eval_freq": eval_freq, "eval_episodes": episodes}
    schedule, callbacks = build(Schedule, intervals), Callbacks(given)
    if eval_freq:
        check_can_evaluate(learner)
    recent, now = RecentEpisodes(), learner.num_timesteps
    log_at, evaluate_at = next_multiple(now, log_freq), next_multiple(now, eval_freq)
    last = (now, time.perf_counter())
    with callbacks.told(learner, now + total):
        for step in steps:
            recent.add(step.episodes)
            goes_on = callbacks.step(learner, step)
            now = learner.num_timesteps
            if now >= log_at:
                before, last = last, (now, time.perf_counter())
                pace = {"time/fps": rate(last[0] - before[0], last[1] - before[1])}
                goes_on &= callbacks.metrics(learner, recent.metrics() | learner.agent.metrics | pace)
                log_at = next_multiple(now, log_freq)
            if now >= evaluate_at:
                result = evaluate(learner, schedule.eval_episodes, seed=learner.seed)
                goes_on &= callbacks.evaluation(learner, result)
                evaluate_at = next_multiple(now, eval_freq)
            if not goes_on:
                break
