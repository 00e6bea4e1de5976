"""Calibrating an agent: play, and see how far the returns lie from what it believed."""

from __future__ import annotations

from bdqn.config.seeding import integer_seed
from bdqn.config.settings import SettingError
from bdqn.learner import Learner
from bdqn.qlearning.calibration import LEVEL, Calibration, episodes_needed
from bdqn.runs.evaluation import evaluate


def calibrate(learner: Learner, episodes: int, *, seed: int = 0, max_steps: int | None = None) -> Calibration:
    """What the returns of so many episodes say of the learner's Q; the learner is left as it was.

    These are other episodes than those of an evaluation with the same seed: that one tells whether intervals hold.
    """
    if learner.agent.online.head.posterior is None:
        raise TypeError(
            f"{learner.configuration.agent} keeps no posterior over Q to calibrate; a Bayesian agent such as bdqn does."
        )
    if episodes < (needed := episodes_needed(LEVEL)):
        raise SettingError(f"Calibrating takes at least {needed} episodes, for {LEVEL:.0%} intervals, not {episodes}.")
    own = integer_seed(seed, "calibration")
    outcomes = evaluate(learner, episodes, seed=own, spread=True, max_steps=max_steps).outcomes
    assert outcomes is not None, "a posterior has a spread"
    return Calibration.of(outcomes, learner.num_timesteps)
