"""Bayesian DQN (Azizzadenesheli et al., 2018, Alg. 3). This is Double DQN with:

- head: a Gaussian posterior over the last layer's weights of each action, refitted by Bayesian linear regression
- redraw: the acting weights are drawn from it every T^S decisions, or at each episode's start
- policy: greedy under that draw (Thompson sampling); or optimistic, or greedy under the mean, on the same posterior
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bdqn.settings import setting

if TYPE_CHECKING:
    from bdqn.choices import Choices


@dataclass(frozen=True)
class Settings:
    """The posterior, its schedules, and how it acts."""

    prior_var: float = setting(1.0, "variance of the weights' prior (the paper's sigma)", minimum=1e-12)
    noise: Literal["fixed", "inverse-gamma"] = setting(
        "inverse-gamma", "fixed noise variance, or one learned per action (Normal-Inverse-Gamma)"
    )
    noise_var: float = setting(1.0, "fixed noise: its variance (the paper's sigma_eps)", minimum=1e-12)
    noise_shape: float = setting(2.0, "inverse-gamma noise: shape of its prior", minimum=1.0001)
    noise_scale: float = setting(0.01, "inverse-gamma noise: scale of its prior", minimum=1e-12)
    posterior_batch_size: int = setting(10_000, "B: transitions per refit", minimum=1)
    posterior_update_interval: int = setting(1_000, "T^BT: decisions between refits", minimum=1)
    first_refit: Literal["start", "interval"] = setting(
        "start", "first refit when learning starts, or one interval later; actions are uniform until then"
    )
    regression_target: Literal["double", "max"] = setting("double", "bootstrap of the regression's targets")
    redraw: Literal["episode", "steps"] = setting("episode", "draw at episode starts, or every sample_interval")
    sample_interval: int = setting(1_000, "T^S: decisions between draws, with redraw = steps", minimum=1)
    acting_sample_interval: int = setting(
        0, "T~^S: decisions between draws that only act, in each environment's own count; 0: none", minimum=0
    )
    loss_head: Literal["mean", "draw"] = setting("mean", "which weights the loss is taken under (Alg. 3: the draw)")
    temperature: float = setting(1.0, "multiplies the covariance of draws", minimum=0)
    bias_feature: bool = setting(True, "add a constant to the features of the regression")
    acting: Literal["thompson", "ucb", "mean"] = setting(
        "thompson", "act greedily under a draw, under mean + ucb_scale * std, or under the mean"
    )
    ucb_scale: float = setting(1.0, "standard deviations of optimism, with acting = ucb", minimum=0)


def choices(settings: Settings) -> Choices:
    """Bayesian head, Thompson sampling, double Q, and a refit."""
    import numpy as np
    import torch

    from bdqn.choices import Choices, Policy, QView, Redraw, Refit, double_q, max_q
    from bdqn.heads import BayesianHead
    from bdqn.posterior import Fixed, InverseGamma, Prior
    from bdqn.rules import Actions, greedy, upper_confidence

    noise = (
        Fixed(settings.noise_var)
        if settings.noise == "fixed"
        else InverseGamma(settings.noise_shape, settings.noise_scale)
    )

    def head(sizes: list[int], num_actions: int, generator: torch.Generator) -> BayesianHead:
        return BayesianHead(
            sizes,
            num_actions,
            generator,
            Prior(settings.prior_var, noise),
            temperature=settings.temperature,
            bias_feature=settings.bias_feature,
            loss_head=settings.loss_head,
        )

    def thompson(q: QView, step: int, rng: np.random.Generator) -> Actions:
        return greedy(q.draw)

    def optimistic(q: QView, step: int, rng: np.random.Generator) -> Actions:
        return upper_confidence(q.mean, q.std, settings.ucb_scale)

    def mean(q: QView, step: int, rng: np.random.Generator) -> Actions:
        return greedy(q.mean)

    policies: dict[str, Policy] = {"thompson": thompson, "ucb": optimistic, "mean": mean}
    redraw = Redraw(settings.sample_interval if settings.redraw == "steps" else 0, settings.acting_sample_interval)
    return Choices(
        head=head,
        policy=policies[settings.acting],
        redraw=redraw if settings.acting == "thompson" else None,  # without draws the mean stands for them
        bootstrap=double_q,
        refit=Refit(
            settings.posterior_update_interval,
            settings.posterior_batch_size,
            double_q if settings.regression_target == "double" else max_q,
            at_start=settings.first_refit == "start",
        ),
    )
