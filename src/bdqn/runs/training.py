"""A recorded training run: the learner's steps, watched by a record, checkpoints, evaluations and a display."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from bdqn.learner import Learner
from bdqn.runs.evaluation import Stopped, check_can_evaluate, evaluate
from bdqn.runs.progress import Progress, figure
from bdqn.runs.schedule import Schedule
from bdqn.runs.writer import RunRecord
from bdqn.storage import checkpoint_files
from bdqn.storage.checkpoints import Checkpoints

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
    """Train until ``steps`` decisions are taken in all, the score is reached, or ``stop()``; save.

    Says whether it came to its end. An error that leaves the learner whole, such as one of its environments', is
    raised only when all that was learned is saved.
    """
    if schedule.eval_freq:
        check_can_evaluate(learner)
    with _saved_before_raising(learner, record, checkpoints, schedule):
        now = learner.num_timesteps
        # From the latest row and not from now: one that an interruption came before is still due. So is a save where an
        # interruption came before the refit or the evaluation of the same decision.
        log_at, evaluate_at = _next(record.logged, schedule.log_freq), _next(record.evaluated, schedule.eval_freq)
        save_at = _next(max(0, now - learner.envs.num_envs), schedule.save_freq)
        seal_at = now + SEAL_FREQ
        show_at = time.monotonic()

        def report_what_is_due() -> None:
            nonlocal log_at, evaluate_at
            if learner.agent.fit_due:  # cut short by stop(): the figures are those after it
                return
            if now >= log_at:
                record.metrics(now, learner.agent.metrics)
                log_at = _next(now, schedule.log_freq)
            if now >= evaluate_at:
                with suppress(Stopped):
                    _evaluate(learner, record, schedule, progress, stop)
                    evaluate_at = _next(now, schedule.eval_freq)

        def save_if_due() -> None:
            nonlocal save_at
            if now >= save_at and not stop():  # when stopped, it is saved at the end
                save(learner, record, checkpoints, scheduled=True)
                save_at = _next(now, schedule.save_freq)

        def has_reached_score() -> bool:
            return schedule.stop_at is not None and record.score is not None and record.score >= schedule.stop_at

        learner.agent.fit_if_due(stop)
        report_what_is_due()
        save_if_due()
        if not (stop() or has_reached_score()):
            for step in learner.steps(steps - now, stop):
                now = learner.num_timesteps
                for episode in step.episodes:
                    record.episode(now, episode)
                for restart in step.restarts:
                    record.restart(now, restart)
                report_what_is_due()
                save_if_due()
                if now >= seal_at:
                    _seal(learner, record, checkpoints)
                    seal_at = now + SEAL_FREQ
                if time.monotonic() >= show_at:
                    progress.show(now, record.mean_return)
                    show_at = time.monotonic() + progress.interval
                if stop() or ((step.episodes or record.evaluated == now) and has_reached_score()):
                    break
        progress.show(now, record.mean_return)
        at_end = now >= steps or has_reached_score()
        evaluation_due = _evaluation_is_due(learner, record, schedule)
        scheduled = (at_end or now >= save_at) and not (learner.agent.fit_due or evaluation_due)
        save(learner, record, checkpoints, scheduled=scheduled, evaluation_due=evaluation_due)
        return at_end and not stop()


@contextmanager
def _saved_before_raising(
    learner: Learner, record: RunRecord, checkpoints: Checkpoints, schedule: Schedule
) -> Iterator[None]:
    try:
        yield
    except BaseException as error:  # an environment's may be no Exception: sys.exit, a cancelled task of asyncio
        in_haste = isinstance(error, KeyboardInterrupt)  # whoever asks twice does not want to wait
        if learner.is_whole and not in_haste:
            with suppress(Exception):  # what ended the run is what is told, not what followed from it
                save(learner, record, checkpoints, evaluation_due=_evaluation_is_due(learner, record, schedule))
        raise


def _evaluation_is_due(learner: Learner, record: RunRecord, schedule: Schedule) -> bool:
    return learner.num_timesteps >= _next(record.evaluated, schedule.eval_freq)


def _evaluate(
    learner: Learner, record: RunRecord, schedule: Schedule, progress: Progress, stop: Callable[[], bool]
) -> None:
    now = learner.num_timesteps
    result = evaluate(learner, schedule.eval_episodes, seed=learner.seed, max_steps=schedule.eval_max_steps, stop=stop)
    record.evaluation(now, result)
    cut = f", {result.cut} cut short" if result.cut else ""
    figures = f"mean return {figure(result.mean)}, std {figure(result.std)}"
    progress.tell(f"Evaluation after {now:,} steps: {figures} ({len(result.returns)} episodes{cut})")


def save(
    learner: Learner,
    record: RunRecord,
    checkpoints: Checkpoints,
    *,
    scheduled: bool = False,
    evaluation_due: bool = False,
) -> None:
    """Write a checkpoint. A disk that is full or gone does not end the run: the checkpoint before stays.

    Only ``scheduled`` ones may be the best, so that it does not depend on interruptions.
    """
    try:
        _follow(record, checkpoints)
        record.sync()  # a checkpoint counts the tables' rows, so they come first
        score = record.score if scheduled else None
        checkpoints.save(learner, record.state(), score, evaluation_due=evaluation_due)
    except OSError as error:
        record.trouble(
            "checkpoint", f"No checkpoint could be written after {learner.num_timesteps:,} decisions: {error}."
        )
    else:
        record.saved = learner.num_timesteps
        record.over("checkpoint")


def _seal(learner: Learner, record: RunRecord, checkpoints: Checkpoints) -> None:
    try:
        _follow(record, checkpoints)
        checkpoints.keep_up(learner)
    except OSError as error:
        record.trouble("replay", f"The replay memory could not be written: {error}.")
    else:
        record.over("replay")


def _follow(record: RunRecord, checkpoints: Checkpoints) -> None:
    """Write where the run's directory is now, and nowhere that a link leads to."""
    if record.follow():
        checkpoints.move(record.folder / checkpoints.folder.name)
    checkpoint_files.folder_of(record.folder)


def _next(now: int, interval: int) -> float:
    """The first multiple of ``interval`` after ``now``, wherever the run began; never for 0."""
    return (now // interval + 1) * interval if interval else float("inf")
