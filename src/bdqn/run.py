"""A recorded training run: the learner's steps, watched by a record, checkpoints, evaluations and a display."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from bdqn.checkpoint import Checkpoints
from bdqn.evaluation import Stopped, check_can_evaluate, evaluate
from bdqn.learner import Learner
from bdqn.progress import Progress
from bdqn.record import RunRecord
from bdqn.schedule import Schedule

SEAL_FREQ = 256  # decisions between looks whether a stretch of the replay memory is complete


def train(
    learner: Learner,
    steps: int,
    record: RunRecord,
    checkpoints: Checkpoints,
    schedule: Schedule,
    progress: Progress,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train until ``steps`` decisions are taken in all, or ``stop()``; save; returns whether all were taken."""
    if schedule.eval_freq:
        check_can_evaluate(learner)
    now = learner.num_timesteps
    save_at = _next(now, schedule.save_freq)
    # From the latest row and not from now: one that an interruption came before is still due.
    log_at, evaluate_at = _next(record.logged, schedule.log_freq), _next(record.evaluated, schedule.eval_freq)
    seal_at = now + SEAL_FREQ
    show_at = time.monotonic()

    def report_what_is_due() -> None:
        nonlocal log_at, evaluate_at
        if learner.agent.refit_due:  # cut short by stop(): the figures are those after it
            return
        if now >= log_at:
            record.metrics(now, learner.agent.metrics)
            log_at = _next(now, schedule.log_freq)
        if now >= evaluate_at:
            with suppress(Stopped):
                record.evaluation(now, evaluate(learner, schedule.eval_episodes, seed=learner.seed, stop=stop))
                evaluate_at = _next(now, schedule.eval_freq)

    learner.agent.refit_if_due(stop)
    report_what_is_due()
    if not stop():
        for step in learner.steps(steps - now, stop):
            now = learner.num_timesteps
            for episode in step.episodes:
                record.episode(now, episode)
            for restart in step.restarts:
                record.restart(now, restart)
            report_what_is_due()
            if now >= save_at and not stop():  # when stopped, it is saved below
                save(learner, record, checkpoints)
                save_at = _next(now, schedule.save_freq)
            if now >= seal_at:
                _seal(learner, record, checkpoints)
                seal_at = now + SEAL_FREQ
            if time.monotonic() >= show_at:
                progress.show(now, record.mean_return)
                show_at = time.monotonic() + progress.interval
            if stop():
                break
    progress.show(now, record.mean_return)
    save(learner, record, checkpoints)
    return now >= steps and not stop()


def save(learner: Learner, record: RunRecord, checkpoints: Checkpoints) -> None:
    """Write a checkpoint. A disk that is full or gone does not end the run: the checkpoint before stays."""
    try:
        record.sync()  # a checkpoint counts the tables' rows, so they come first
        checkpoints.save(learner, record.state(), record.score)
    except OSError as error:
        record.trouble(
            "checkpoint", f"No checkpoint could be written after {learner.num_timesteps:,} decisions: {error}."
        )
    else:
        record.saved = learner.num_timesteps
        record.over("checkpoint")


def _seal(learner: Learner, record: RunRecord, checkpoints: Checkpoints) -> None:
    try:
        checkpoints.keep_up(learner)
    except OSError as error:
        record.trouble("replay", f"The replay memory could not be written: {error}.")
    else:
        record.over("replay")


def _next(now: int, interval: int) -> float:
    """The first multiple of ``interval`` after ``now``, wherever the run began; never for 0."""
    return (now // interval + 1) * interval if interval else float("inf")
