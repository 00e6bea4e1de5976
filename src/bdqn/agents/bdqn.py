"""Bayesian DQN (Azizzadenesheli et al., 2018, Alg. 3). This is Double DQN with:

- head: a Gaussian posterior over the last layer's weights of each action, refitted by Bayesian linear regression
- redraw: the acting weights are drawn from it every T^S decisions, or at each episode's start
- policy: greedy under that draw (Thompson sampling); or optimistic, or greedy or epsilon-greedy under the mean, on the
  same posterior
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bdqn.agents import ddqn
from bdqn.config.settings import ReadWith, SettingError, setting, settings_of

if TYPE_CHECKING:
    from bdqn.networks.heads import BayesianHead
    from bdqn.networks.qnetwork import MakeFrozenPrior, MakeHead
    from bdqn.qlearning.choices import Choices, Policy
    from bdqn.qlearning.draws import Redraw
    from bdqn.qlearning.last_layer import Fit


@dataclass(frozen=True)
class PosteriorSettings:
    """The posterior, from what it is fitted, and how it is used in training."""

    READ_WITH: ClassVar[ReadWith] = {
        "noise_var": ("noise", "fixed"),
        "noise_shape": ("noise", "inverse-gamma"),
        "noise_scale": ("noise", "inverse-gamma"),
        "loss_head": ("last_layer", "regression"),
    }

    prior_var: float = setting(1.0, "variance of the weights' prior (the paper's sigma)", minimum=1e-12)
    noise: Literal["fixed", "inverse-gamma"] = setting(
        "inverse-gamma", "fixed noise variance, or one learned per action (Normal-Inverse-Gamma)"
    )
    noise_var: float = setting(1.0, "variance of the noise (the paper's sigma_eps)", minimum=1e-12)
    noise_shape: float = setting(2.0, "shape of the noise's prior", minimum=1.0001)
    noise_scale: float = setting(0.01, "scale of the noise's prior", minimum=1e-12)
    posterior_batch_size: int = setting(10_000, "B: transitions per refit", minimum=1)
    posterior_update_interval: int = setting(1_000, "T^BT: decisions between refits", minimum=1)
    first_refit: Literal["start", "interval"] = setting(
        "start", "first refit when learning starts, or one interval later; actions are uniform until then"
    )
    posterior_data: Literal["replay", "minibatches"] = setting(
        "replay", "fit to B replayed transitions, or to what the updates have seen since the last fit (no extra passes)"
    )
    gram_decay: float = setting(
        0.0, "share of past refits' data that is kept; 0: they are forgotten", minimum=0, maximum=1
    )
    online_interval: int = setting(
        0, "decisions between updates of the posterior with what has come in since its refit; 0: none", minimum=0
    )
    online_forgetting: float = setting(
        0.0, "share of earlier data that each transition of such an update replaces; 0: none", minimum=0, maximum=0.5
    )
    regression_target: Literal["double", "max"] = setting("double", "bootstrap of the regression's targets")
    regression_head: Literal["mean", "draw", "second-draw"] = setting(
        "mean", "which weights value the next action in the regression's targets; a draw carries its uncertainty on"
    )
    last_layer: Literal["regression", "gradient-prior", "gradient"] = setting(
        "regression",
        "the regression alone; around a last layer that gradients train as the prior's mean, or as the posterior's",
    )
    loss_head: Literal["mean", "draw"] = setting("mean", "which weights the loss is taken under (Alg. 3: the draw)")
    evaluate_head: Literal["mean", "draw", "second-draw"] = setting(
        "mean", "which weights value the next action in the loss's targets: Alg. 3's mean, the draw, or another"
    )
    bias_feature: bool = setting(True, "add a constant to the features of the regression")
    prior_scale: float = setting(0.0, "scale of a frozen random Q-function added to Q; 0: none", minimum=0)


@dataclass(frozen=True)
class Settings(ddqn.Exploration, PosteriorSettings):
    """The posterior, its draws, and how it acts."""

    READ_WITH: ClassVar[ReadWith] = {
        **PosteriorSettings.READ_WITH,
        "sample_interval": ("redraw", "steps"),
        "ucb_scale": ("acting", "ucb"),
        "lcb_scale": ("acting", "lcb"),
        "cvar_alpha": ("acting", "cvar"),
        **dict.fromkeys(settings_of(ddqn.Exploration), ("acting", "epsilon-greedy")),
    }

    redraw: Literal["episode", "steps"] = setting("episode", "draw at episode starts, or every sample_interval")
    sample_interval: int = setting(1_000, "T^S: decisions between draws", minimum=1)
    acting_sample_interval: int = setting(
        0, "T~^S: decisions between draws that only act, in each environment's own count; 0: none", minimum=0
    )
    temperature: float = setting(1.0, "multiplies the covariance of draws", minimum=0)
    acting: Literal["thompson", "ucb", "mean", "epsilon-greedy", "lcb", "cvar"] = setting(
        "thompson",
        "act greedily under a draw, under mean + ucb_scale * std, or under the mean; as ddqn does, with its epsilon; "
        "or safely, without exploring, by the lower confidence bound or the tail mean of Q",
    )
    ucb_scale: float = setting(1.0, "standard deviations of optimism", minimum=0)
    lcb_scale: float = setting(1.645, "standard deviations of caution", minimum=0)
    cvar_alpha: float = setting(0.05, "share of the worst values whose mean counts", minimum=1e-6, maximum=1)
    posterior_parts: int = setting(
        1,
        "last layers, one for each part of an episode; the last so many numbers of an observation say which",
        minimum=1,
    )
    part_rows: int = setting(
        100, "with posterior_parts: a part of which a refit has fewer transitions keeps its last layer", minimum=0
    )


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with a Bayesian head, Thompson sampling and a closed-form fit."""
    from functools import partial

    thompson = settings.acting == "thompson"
    plain_head = partial(head_class(settings), temperature=settings.temperature, **head_options(settings))
    return replace(
        ddqn.choices(ddqn.Settings()),
        head=plain_head if settings.posterior_parts == 1 else by_part(settings),
        policy=policy(settings),
        redraw=redraw(settings) if thompson else None,  # without draws the mean stands for them
        fit=replace(fit(settings), parts=settings.posterior_parts),
        frozen_prior=frozen_prior(settings) if settings.posterior_parts == 1 else episode_part(settings),
    )


def policy(settings: Settings) -> Policy:
    """Greedy under a draw, or one of its rivals on the same posterior."""
    from functools import partial

    from bdqn.qlearning.choices import greedy_under_draw, greedy_under_mean, optimistic, safest
    from bdqn.qlearning.safety import conditional_value_at_risk, lower_confidence_bound

    policies = {
        "thompson": greedy_under_draw,
        "ucb": optimistic(settings.ucb_scale),
        "mean": greedy_under_mean,
        "epsilon-greedy": ddqn.policy(settings),
        "lcb": safest(partial(lower_confidence_bound, scale=settings.lcb_scale)),
        "cvar": safest(partial(conditional_value_at_risk, alpha=settings.cvar_alpha)),
    }
    return policies[settings.acting]


def redraw(settings: Settings) -> Redraw:
    """At episode starts, or every T^S decisions; T~^S for a faster draw that only acts."""
    from bdqn.qlearning.draws import Redraw

    return Redraw(settings.sample_interval if settings.redraw == "steps" else 0, settings.acting_sample_interval)


def fit(settings: PosteriorSettings) -> Fit:
    """Eq. (w) on B transitions, every T^BT decisions."""
    from bdqn.qlearning.last_layer import Fit
    from bdqn.qlearning.online_fit import Online
    from bdqn.qlearning.targets import double_q, max_q

    from_minibatches = settings.posterior_data == "minibatches"
    if settings.online_interval and (from_minibatches or settings.gram_decay):
        raise SettingError(
            "On-line updates add to the data of one refit from the replay buffer: set posterior_data = replay and "
            "gram_decay = 0, or online_interval = 0."
        )
    return Fit(
        settings.posterior_update_interval,
        settings.posterior_batch_size,
        double_q if settings.regression_target == "double" else max_q,
        at_start=settings.first_refit == "start" and not from_minibatches,  # which have seen nothing by then
        decay=settings.gram_decay,
        online=Online(settings.online_interval, settings.online_forgetting) if settings.online_interval else None,
        from_minibatches=from_minibatches,
    )


def head_class(settings: PosteriorSettings) -> type[BayesianHead]:
    """The paper's head, or one beside which gradients train a last layer."""
    from bdqn.networks.heads import BayesianHead, TrainedMeanHead, TrainedPriorMeanHead

    heads: dict[str, type[BayesianHead]] = {
        "regression": BayesianHead,
        "gradient-prior": TrainedPriorMeanHead,
        "gradient": TrainedMeanHead,
    }
    return heads[settings.last_layer]


def head_options(settings: PosteriorSettings) -> dict[str, Any]:
    """The prior over weights, and which weights play which part in training."""
    from bdqn.bayes.noise import Fixed, InverseGamma
    from bdqn.bayes.posterior import Prior
    from bdqn.networks.heads import Roles

    fixed = settings.noise == "fixed"
    noise = Fixed(settings.noise_var) if fixed else InverseGamma(settings.noise_shape, settings.noise_scale)
    return {
        "prior": Prior(settings.prior_var, noise),
        "roles": Roles(settings.loss_head, settings.evaluate_head, settings.regression_head),
        "bias": settings.bias_feature,
        "frozen_q_scale": settings.prior_scale,
    }


def by_part(settings: Settings) -> MakeHead:
    """A last layer for each part of an episode."""
    from functools import partial

    from bdqn.networks.heads import PartsHead

    if not settings.bias_feature or settings.prior_scale or settings.last_layer != "regression" or settings.gram_decay:
        raise SettingError(
            "posterior_parts gives every part a regression alone, with a constant: set bias_feature = true, "
            "prior_scale = 0, last_layer = regression and gram_decay = 0, or posterior_parts = 1."
        )
    options = head_options(settings)
    del options["bias"], options["frozen_q_scale"]
    return partial(PartsHead, fewest_rows=settings.part_rows, temperature=settings.temperature, **options)


def episode_part(settings: Settings) -> MakeFrozenPrior:
    """What tells the parts of an episode apart."""
    from functools import partial

    from bdqn.networks.frozen_priors import EpisodePart

    return partial(EpisodePart, parts=settings.posterior_parts)


def frozen_prior(settings: PosteriorSettings) -> MakeFrozenPrior | None:
    """A frozen random Q-function, where prior_scale asks for one."""
    from functools import partial

    from bdqn.networks.frozen_priors import FrozenQ

    return partial(FrozenQ, members=1) if settings.prior_scale else None
