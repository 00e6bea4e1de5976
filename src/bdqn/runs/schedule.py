"""How often a run is logged, evaluated and saved, and when it stops. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from bdqn.config.settings import setting


@dataclass(frozen=True)
class Schedule:
    """Intervals of a run, in decisions."""

    log_freq: int = setting(1_000, "decisions between rows of metrics.csv", minimum=1)
    eval_freq: int = setting(0, "decisions between evaluations, which do not affect training; 0: none", minimum=0)
    eval_episodes: int = setting(10, "episodes per evaluation", minimum=1)
    eval_max_steps: int | None = setting(
        None,
        "decisions after which an evaluation episode is truncated; unset: 27,000 if the environment has no time limit",
        minimum=1,
    )
    save_freq: int = setting(50_000, "decisions between checkpoints; 0: only at the end or when stopped", minimum=0)
    keep: int = setting(3, "number of recent checkpoints to keep, besides the best", minimum=1)
    save_replay: bool = setting(True, "save the replay buffer in checkpoints, so that a resumed run continues exactly")
    max_episodes: int | None = setting(
        None, "stop after this many episodes, over all environments; unset: no limit", minimum=1
    )
    stop_at: float | None = setting(
        None, "stop at this score: the latest evaluation or, without one, the mean return of 100 episodes; unset: never"
    )


def next_multiple(now: int, interval: int) -> float:
    """The first multiple of ``interval`` after ``now``; infinity for 0."""
    return (now // interval + 1) * interval if interval else float("inf")
