"""How often a run is looked at and saved, and when it has come far enough. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from bdqn.config.settings import setting


@dataclass(frozen=True)
class Schedule:
    """All intervals are in decisions."""

    log_freq: int = setting(1_000, "decisions between rows of metrics.csv", minimum=1)
    eval_freq: int = setting(0, "decisions between evaluations, which do not touch training; 0: none", minimum=0)
    eval_episodes: int = setting(10, "episodes per evaluation", minimum=1)
    eval_max_steps: int | None = setting(
        None,
        "decisions after which an evaluation's episode is cut; unset: 27,000 where the environment has no time limit",
        minimum=1,
    )
    save_freq: int = setting(50_000, "decisions between checkpoints; 0: only at the end, or when stopped", minimum=0)
    keep: int = setting(3, "how many recent checkpoints to keep, besides the best", minimum=1)
    save_replay: bool = setting(True, "checkpoints hold the replay memory too, so that a resumed run goes on exactly")
    stop_at: float | None = setting(
        None, "end when the latest evaluation, or without one the mean return of 100 episodes, is this high; unset: no"
    )
