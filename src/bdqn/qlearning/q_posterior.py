"""What a user is told of Q: its mean, the regression's spread, and intervals calibrated on returns."""

from __future__ import annotations

from dataclasses import dataclass

from bdqn.qlearning.calibration import Array, Calibration, NotCalibrated

NO_CALIBRATION = (
    "This agent is not calibrated, or has learned since: call learner.calibrate() and ask for the posterior again, or "
    "run bdqn evaluate RUN --calibrate and load it again. What bdqn.attach returns has no intervals of returns."
)


@dataclass(frozen=True)
class QPosterior:
    """Belief about Q at one observation (actions,) or a batch of them (batch, actions)."""

    mean: Array
    std: Array  # epistemic: about the mean return; more data shrink it
    predictive_std: Array  # of a single regression target: the noise included
    calibration: Calibration | None = None  # how far returns lay from the mean; None: not measured

    @property
    def calibrated_std(self) -> Array | None:
        """Half of the interval that holds 68 % of returns; None before `learner.calibrate()`."""
        return None if self.calibration is None else self.calibration.std(self.predictive_std)

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper bounds between which the return of each action lies with this probability.

        Of the actions that it takes: what calibrates them is the returns of episodes that it plays.
        """
        if self.calibration is None:
            raise NotCalibrated(NO_CALIBRATION)
        return self.calibration.interval(self.mean, self.predictive_std, level)
