"""Bayesian DQN that explores out of the box, whatever rewards and observations are counted in. This is bdqn-deep with:

- a scale-free posterior: the prior is over Q, in the unit of the returns seen, which also bound the mean; the noise is
  that of the residuals
- fits, and target updates, whenever the data have grown by a share: early fits are cheap, and decide what is explored
- frozen features of several lengthscales, as fine as recent observations allow
- bold draws beside the modest ones, which act where they pay
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from bdqn.agents import bdqn, bdqn_deep
from bdqn.config.settings import SettingError, setting

if TYPE_CHECKING:
    from bdqn.networks.qnetwork import MakeFrozenPrior, MakeHead
    from bdqn.qlearning.boldness import Bold
    from bdqn.qlearning.choices import Choices


@dataclass(frozen=True)
class Settings(bdqn_deep.Settings):
    """The posterior, its draws, and what lets them explore; each change can be switched off."""

    backup_draws: int = setting(
        30, "draws of each kind that a fit prepares, at most: 3 of 3,000 transitions or more", minimum=1, maximum=1000
    )
    backup_sweeps: int = setting(
        100, "backups of the mean and of draws, at most: 10 of 10,000 transitions or more; 0: none", minimum=0
    )
    backup_where: Literal["always", "recurring"] = setting(
        "always", "back mean and draws up always, or only where most transitions recur"
    )
    backup_bound: float = setting(
        100.0, "prior standard deviations by which a draw's values may exceed the mean's", minimum=0
    )
    value_spread: float = setting(
        0.05, "prior standard deviation of Q, as a share of the returns seen; 0: prior_var and noise decide", minimum=0
    )
    prior_share: float = setting(
        0.3, "share of the prior variance that prior features have", minimum=0.001, maximum=0.999
    )
    learned_spread: float = setting(
        0.3, "widest prior standard deviation of Q through learned features, if the data ask for it", minimum=0
    )
    least_noise: float = setting(1e-3, "least noise variance, as a share of the prior's", minimum=1e-12)
    boldness: float = setting(
        10.0, "prior standard deviation of Q under bold draws, as a share of the returns seen; 0: none", minimum=0
    )
    bold_least_noise: float = setting(
        1e-6, "least noise variance under bold draws, as a share of their prior's", minimum=1e-12
    )
    bold_decay: float = setting(
        1 / 2, "segment n goes to the worse kind of draw with probability n^-this; 0: all draws are bold", minimum=0
    )
    bold_decay_unlike: float = setting(
        1.0, "the same for bold draws where most transitions are unlike all others", minimum=1e-3
    )
    bold_while_new: bool = setting(
        True, "with no reward above zero yet, segments that meet new kinds of transition do not count for bold_decay"
    )
    bold_unlike: Literal["draws", "uniform"] = setting(
        "draws", "what acts in bold segments where most transitions are unlike all others: draws, or chance"
    )
    allow_for_chance: bool = setting(
        True, "where outcomes of an action differ, bold draws take none of them for certain"
    )
    leave_loops: bool = setting(
        True, "a draw that goes round in circles is replaced: a modest one by the mean, and that by a bold draw"
    )
    act_as_fitted: Literal["always", "recurring", "never"] = setting(
        "always",
        "act by the features of the last fit rather than by those of today; recurring: where transitions recur",
    )
    prior_features_most: int = setting(
        1024,
        "up to how many prior features double where observations outnumber them; not where data outlive a fit",
        minimum=0,
    )
    prior_scales: int = setting(4, "lengthscales of prior features, from half of it on, each twice the last", minimum=1)
    prior_where: Literal["always", "recurring"] = setting(
        "recurring", "prior features: always, or only where most transitions recur; counts only with adapt"
    )
    adapt: bool = setting(True, "prior features and the range of unbounded observations follow the data")
    refit_growth: float = setting(0.05, "fit when the data have grown by this share; 0: at fixed intervals", minimum=0)
    refit_news: float = setting(
        0.02, "where transitions recur, fit when this share of those that differ are new; 0: wait for growth", minimum=0
    )
    refit_least: int = setting(50, "decisions between such fits, at least", minimum=1)
    refit_most: int = setting(1_000, "decisions between such fits, at most", minimum=1)


def choices(settings: Settings) -> Choices:
    """bdqn-deep's choices with another prior, other draws and another schedule."""
    from bdqn.qlearning.choices import WHERE
    from bdqn.qlearning.growth import Growth

    if settings.value_spread and settings.last_layer != "regression":
        raise SettingError("value_spread fits the last layer alone: set last_layer = regression, or value_spread = 0.")
    if settings.value_spread and (settings.posterior_data != "replay" or settings.online_interval):
        raise SettingError(
            "value_spread takes its scale from the replay buffer: set posterior_data = replay and online_interval = 0, "
            "or value_spread = 0."
        )
    deep = bdqn_deep.choices(settings)
    assert deep.fit is not None
    most = _most_features(settings)
    features_are_kept = bool(settings.refit_growth) and settings.last_layer == "regression"
    growth = Growth(settings.refit_growth, settings.refit_least, settings.refit_most, settings.refit_news)
    return replace(
        deep,
        head=_scale_free(settings) if settings.value_spread else deep.head,
        frozen_prior=_frozen_features(settings, most) if settings.prior_features else deep.frozen_prior,
        bold=_bold(settings) if settings.value_spread and settings.boldness and settings.acting == "thompson" else None,
        acts_as_fitted=WHERE[settings.act_as_fitted if features_are_kept else "never"],
        fit=replace(
            deep.fit,
            keeps_rows=deep.fit.keeps_rows or bool(settings.value_spread),
            with_returns=bool(settings.value_spread),
            distinct=bool(settings.refit_growth),
            growth=growth if settings.refit_growth else None,
            adapts=settings.adapt and bool(settings.refit_growth),
            uses_frozen=WHERE[settings.prior_where],
            frozen_features_most=most,
        ),
    )


def _bold(settings: Settings) -> Bold:
    from bdqn.qlearning.boldness import Bold

    return Bold(
        settings.bold_decay,
        settings.bold_decay_unlike,
        settings.leave_loops,
        settings.bold_while_new,
        uniform_unlike=settings.bold_unlike == "uniform",
    )


def _scale_free(settings: Settings) -> MakeHead:
    from functools import partial

    from bdqn.networks.heads import Backups, QPrior, ScaleFree, ScaleFreeHead

    share = settings.prior_share
    modest = QPrior(settings.value_spread, share, settings.least_noise)
    bold = QPrior(settings.boldness, share, settings.bold_least_noise) if settings.boldness else None
    return partial(
        ScaleFreeHead,
        scale_free=ScaleFree(
            modest, bold, settings.allow_for_chance, settings.backup_where == "always", settings.learned_spread
        ),
        backups=Backups(settings.backup_draws, settings.backup_sweeps, settings.backup_bound),
        temperature=settings.temperature,
        **bdqn.head_options(settings),
    )


def _most_features(settings: Settings) -> int:
    """How many frozen features there may be in the end. Data that outlive a fit would not know the new ones."""
    from bdqn.networks.frozen_priors import largest_count

    kept = settings.posterior_data != "replay" or settings.gram_decay or settings.online_interval
    grows = settings.adapt and settings.refit_growth and settings.last_layer == "regression" and not kept
    return largest_count(settings.prior_features, settings.prior_features_most if grows else 0)


def _frozen_features(settings: Settings, most: int) -> MakeFrozenPrior:
    from functools import partial

    from bdqn.networks.frozen_priors import FrozenFeatures

    return partial(
        FrozenFeatures,
        count=settings.prior_features,
        lengthscale=settings.prior_lengthscale,
        scales=settings.prior_scales,
        most=most,
    )
