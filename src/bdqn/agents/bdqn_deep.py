"""Bayesian DQN whose uncertainty propagates. This is Bayesian DQN with:

- prior features: frozen random features of the observation beside the learned ones, so that what is new looks new
- sampled backups: a draw is fitted to its own values of what comes next (RLSVI), so that what is uncertain later
  counts now; the mean goes the same way
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bdqn.agents import bdqn
from bdqn.config.settings import SettingError, setting

if TYPE_CHECKING:
    from bdqn.networks.qnetwork import MakeFrozenPrior, MakeHead
    from bdqn.qlearning.choices import Choices


@dataclass(frozen=True)
class Settings(bdqn.Settings):
    """The posterior, its draws, and what makes them deep; either change can be switched off."""

    prior_features: int = setting(256, "frozen random features beside the learned ones; 0: none", minimum=0)
    prior_lengthscale: float = setting(0.5, "how near observations must be to look alike to those", minimum=1e-6)
    backup_sweeps: int = setting(20, "backups of the mean and of draws on the refit's transitions; 0: none", minimum=0)
    backup_draws: int = setting(10, "draws that a refit prepares, for episodes to pick from", minimum=1, maximum=1000)
    backup_bound: float = setting(
        2.0, "prior standard deviations by which a draw's values may exceed the mean's", minimum=0
    )


def choices(settings: Settings) -> Choices:
    """Bayesian DQN's choices with another prior and other draws."""
    given = (settings.posterior_data, settings.gram_decay, settings.online_interval, settings.last_layer)
    if settings.backup_sweeps and given != ("replay", 0, 0, "regression"):
        raise SettingError(
            "Sampled backups fit draws to the refit's transitions alone, around a prior mean of zero: set "
            "posterior_data = replay, gram_decay = 0, online_interval = 0 and last_layer = regression, or "
            "backup_sweeps = 0."
        )
    if settings.prior_scale and (settings.prior_features or settings.backup_sweeps):
        raise SettingError(
            "prior_scale adds a frozen Q-function, where bdqn-deep has frozen features and backs up what its "
            "regression alone gives: set prior_scale = 0, or prior_features = 0 and backup_sweeps = 0."
        )
    if settings.posterior_parts > 1:
        raise SettingError("Separate last layers for parts of an episode are bdqn's alone: set posterior_parts = 1.")
    plain = bdqn.choices(settings)
    assert plain.fit is not None
    return replace(
        plain,
        head=_backed_up(settings) if settings.backup_sweeps else plain.head,
        frozen_prior=_frozen_features(settings) if settings.prior_features else plain.frozen_prior,
        fit=replace(plain.fit, frozen_features=settings.prior_features, keeps_rows=bool(settings.backup_sweeps)),
    )


def _backed_up(settings: Settings) -> MakeHead:
    from functools import partial

    from bdqn.networks.heads import BackedUpHead, Backups

    backups = Backups(settings.backup_draws, settings.backup_sweeps, settings.backup_bound)
    return partial(BackedUpHead, backups=backups, temperature=settings.temperature, **bdqn.head_options(settings))


def _frozen_features(settings: Settings) -> MakeFrozenPrior:
    from functools import partial

    from bdqn.networks.frozen_priors import FrozenFeatures

    return partial(FrozenFeatures, count=settings.prior_features, lengthscale=settings.prior_lengthscale)
