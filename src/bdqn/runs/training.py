"""The training loop of a run: steps the learner, and logs, evaluates, saves and shows progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from bdqn.learner import Learner
from bdqn.runs.evaluation import Stopped, check_can_evaluate, evaluate
from bdqn.runs.exploration import ExplorationLog
from bdqn.runs.progress import Progress, evaluation_line
from bdqn.runs.schedule import Schedule, next_multiple
from bdqn.runs.writer import RunWriter
from bdqn.storage import checkpoint_files
from bdqn.storage.checkpoints import Checkpoints

SEAL_FREQ = 256  # decisions between checks for complete replay segments


def train(
    learner: Learner,
    steps: int,
    writer: RunWriter,
    checkpoints: Checkpoints,
    schedule: Schedule,
    progress: Progress,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train up to ``steps`` decisions in total, the schedule's episodes or score, or ``stop()``, then save.

    Returns whether training is complete. An error that leaves the learner consistent, such as one in an environment,
    is raised only after a checkpoint is saved.
    """
    if schedule.eval_freq:
        check_can_evaluate(learner)
    with _saved_before_raising(learner, writer, checkpoints, schedule):
        now = learner.num_timesteps
        # Count from the latest row, not from now: a row that an interruption prevented is still due. So is a checkpoint
        # if an interruption came before the refit or the evaluation of the same decision.
        log_at = next_multiple(writer.logged, schedule.log_freq)
        evaluate_at = next_multiple(writer.evaluated, schedule.eval_freq)
        save_at = next_multiple(max(0, now - learner.envs.num_envs), schedule.save_freq)
        seal_at = now + SEAL_FREQ
        exploration, explores_by_draws = ExplorationLog(steps, now), learner.agent.choices.redraw is not None
        show_at = time.monotonic()

        def report_what_is_due() -> None:
            nonlocal log_at, evaluate_at
            if learner.agent.fit_due:  # interrupted by stop(): metrics are logged after it
                return
            if now >= log_at:
                writer.metrics(now, learner.agent.metrics)
                log_at = next_multiple(now, schedule.log_freq)
            if now >= evaluate_at:
                with suppress(Stopped):
                    _evaluate(learner, writer, schedule, progress, stop)
                    evaluate_at = next_multiple(now, schedule.eval_freq)

        def save_if_due() -> None:
            nonlocal save_at
            if now >= save_at and not stop():  # when stopped, the checkpoint is saved at the end
                save(learner, writer, checkpoints, scheduled=True)
                save_at = next_multiple(now, schedule.save_freq)

        def is_enough() -> bool:
            if schedule.max_episodes is not None and writer.episodes >= schedule.max_episodes:
                return True
            return schedule.stop_at is not None and writer.score is not None and writer.score >= schedule.stop_at

        learner.agent.fit_if_due(stop)
        report_what_is_due()
        save_if_due()
        if not (stop() or is_enough()):
            for step in learner.steps(steps - now, stop):
                now = learner.num_timesteps
                for episode in step.episodes:
                    writer.episode(now, episode)
                for restart in step.restarts:
                    writer.restart(now, restart)
                report_what_is_due()
                if explores_by_draws and not learner.agent.fit_due:
                    exploration.report(now, learner.agent.metrics, progress)
                save_if_due()
                if now >= seal_at:
                    _seal(learner, writer, checkpoints)
                    seal_at = now + SEAL_FREQ
                if time.monotonic() >= show_at:
                    progress.show(now, writer.mean_return)
                    show_at = time.monotonic() + progress.interval
                if stop() or ((step.episodes or writer.evaluated == now) and is_enough()):
                    break
        progress.show(now, writer.mean_return)
        at_end = now >= steps or is_enough()
        evaluation_due = _evaluation_is_due(learner, writer, schedule)
        scheduled = (at_end or now >= save_at) and not (learner.agent.fit_due or evaluation_due)
        save(learner, writer, checkpoints, scheduled=scheduled, evaluation_due=evaluation_due)
        return at_end and not stop()


@contextmanager
def _saved_before_raising(
    learner: Learner, writer: RunWriter, checkpoints: Checkpoints, schedule: Schedule
) -> Iterator[None]:
    try:
        yield
    except BaseException as error:  # environments may raise SystemExit or CancelledError
        second_interrupt = isinstance(error, KeyboardInterrupt)  # the user does not want to wait
        if learner.is_whole and not second_interrupt:
            with suppress(Exception):  # report the error that ended the run, not one that followed
                save(learner, writer, checkpoints, evaluation_due=_evaluation_is_due(learner, writer, schedule))
        raise


def _evaluation_is_due(learner: Learner, writer: RunWriter, schedule: Schedule) -> bool:
    return learner.num_timesteps >= next_multiple(writer.evaluated, schedule.eval_freq)


def _evaluate(
    learner: Learner, writer: RunWriter, schedule: Schedule, progress: Progress, stop: Callable[[], bool]
) -> None:
    now = learner.num_timesteps
    result = evaluate(learner, schedule.eval_episodes, seed=learner.seed, max_steps=schedule.eval_max_steps, stop=stop)
    writer.evaluation(now, result)
    progress.log(evaluation_line(now, result))


def save(
    learner: Learner,
    writer: RunWriter,
    checkpoints: Checkpoints,
    *,
    scheduled: bool = False,
    evaluation_due: bool = False,
) -> None:
    """Write a checkpoint. A full or missing disk does not end the run: the previous checkpoint stays.

    Only ``scheduled`` checkpoints can be the best, so the choice does not depend on interruptions.
    """
    try:
        _check_directory(writer, checkpoints)
        writer.sync()  # a checkpoint counts the tables' rows, so write those first
        score = writer.score if scheduled else None
        folder = checkpoints.save(learner, writer.state(), score, evaluation_due=evaluation_due)
    except OSError as error:
        what = f"Could not write a checkpoint after {learner.num_timesteps:,} decisions"
        writer.report_failure("checkpoint", what, error)
    else:
        writer.checkpoint(learner.num_timesteps, folder)
        writer.report_recovery("checkpoint")


def _seal(learner: Learner, writer: RunWriter, checkpoints: Checkpoints) -> None:
    try:
        _check_directory(writer, checkpoints)
        checkpoints.write_segments(learner)
    except OSError as error:
        writer.report_failure("replay", "Could not write the replay buffer", error)
    else:
        writer.report_recovery("replay")


def _check_directory(writer: RunWriter, checkpoints: Checkpoints) -> None:
    """Follow the run's directory if it was moved, and refuse links inside it."""
    if writer.check_directory():
        checkpoints.move(writer.folder / checkpoints.folder.name)
    checkpoint_files.folder_of(writer.folder)
