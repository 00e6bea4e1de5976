"""Metrics of a posterior, and a warning where its scale does not fit the rewards."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bdqn.bayes.posterior import Moments
from bdqn.bayes.predictions import condition_number, of_action, predictive_std
from bdqn.networks.heads import Index, RegressionHead
from bdqn.qlearning.view import QView

# Spread over action gap, outside of which Thompson sampling is close to random, or close to greedy. Healthy runs
# were seen between 0.02 and 20.
HOT, COLD = 100.0, 0.001
PATIENCE = 10  # refits in a row: early and passing states are not worth a warning

FIT_METRICS = (
    "posterior/std_mean",
    "posterior/action_gap",
    "posterior/draw_differs",
    "posterior/noise_var",
    "posterior/condition_number",
    "posterior/samples_per_action",
    "train/feature_norm",
    "train/weight_norm",
    "train/q_mean",
)
CALIBRATION_METRICS = {"posterior/within_1_std": 1.0, "posterior/within_2_std": 2.0}
POSTERIOR_METRICS = (*FIT_METRICS, *CALIBRATION_METRICS)


class SpreadWarning(UserWarning):
    """The posterior's spread does not fit the size of the rewards."""


@dataclass(frozen=True)
class Rows:
    """Transitions as a regression sees them."""

    phi: Tensor
    action: NDArray[np.int64]
    target: Tensor


def calibration(head: RegressionHead, unseen: Rows) -> dict[str, float]:
    """How often targets of transitions that it was not fitted to are as near to its mean as it expects."""
    assert head.posterior is not None
    x, std = head.regressors(unseen.phi), np.empty(len(unseen.action))
    for action in np.unique(unseen.action):
        taken = unseen.action == action
        std[taken] = predictive_std(of_action(head.posterior, action), x[taken])
    mean = QView(head, unseen.phi, None).mean[np.arange(len(x)), unseen.action]
    error = np.abs(unseen.target.cpu().numpy() - mean)
    return {name: float((error <= width * std).mean()) for name, width in CALIBRATION_METRICS.items()}


class PosteriorWatch:
    """Looks at every fit, and warns once when the spread of Q has long been out of proportion to the action gap."""

    def __init__(self) -> None:
        self.streak = 0  # fits in a row that were out of proportion
        self.warned = False

    def fitted(self, head: RegressionHead, phi: Tensor, draw: Index, moments: Moments) -> dict[str, float]:
        """The metrics of one fit at these features: spread against action gap, and the sizes that drift first."""
        if head.posterior is None:
            return {}
        view = QView(head, phi, draw)
        top_two = np.sort(view.mean, axis=1)[:, -2:]
        values = (
            view.std.mean(),
            np.median(top_two[:, -1] - top_two[:, 0]),
            (view.draw.argmax(1) != view.mean.argmax(1)).mean(),
            head.posterior.noise_var.mean(),
            condition_number(head.posterior).max(),
            moments.count.min(),
            phi[:, : head.shape.num_features].norm(dim=1).mean(),  # a frozen prior's outputs may follow them
            head.get_buffer("weights").norm(dim=1).mean(),
            view.mean.mean(),
        )
        metrics = {name: float(value) for name, value in zip(FIT_METRICS, values, strict=True)}
        self.look(metrics, float(np.abs(view.mean).mean()), bool(np.isinf(head.posterior.noise_shape).all()))
        return metrics

    def look(self, metrics: dict[str, float], q_size: float, fixed_noise: bool) -> None:
        """Take note of one fit; ``q_size`` is the mean size of Q."""
        std, gap = metrics["posterior/std_mean"], metrics["posterior/action_gap"]
        # Actions may truly be alike: a spread that is small beside Q itself is no sign of a wrong scale.
        hot = std > HOT * gap and std > q_size
        cold = std < COLD * gap
        self.streak = self.streak + 1 if gap > 0 and (hot or cold) else 0
        if self.streak >= PATIENCE and not self.warned:
            self.warned = True
            noise_var = metrics["posterior/noise_var"] if fixed_noise else None
            warnings.warn(_report(std, gap, noise_var), SpreadWarning, stacklevel=2)


def _report(std: float, gap: float, fixed_noise_var: float | None) -> str:
    fault = "explores almost at random" if std > gap else "hardly explores"
    cooler = (gap / std) ** 2  # what would bring the spread to the size of the gap
    advice = f"Set temperature={cooler:.2g}"
    if fixed_noise_var is not None:
        advice = (
            f"Its noise variance ({fixed_noise_var:.3g}) does not fit the size of the rewards: set "
            f"noise='inverse-gamma', which learns it, or noise_var={fixed_noise_var * cooler:.2g} with prior_var "
            f"scaled alike, or temperature={cooler:.2g}"
        )
    return (
        f"The posterior's spread of Q ({std:.3g}) is {std / gap:.2g} times the gap between actions ({gap:.3g}): "
        f"the agent {fault}. {advice}."
    )
