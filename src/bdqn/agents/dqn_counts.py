"""Count-based exploration (Bellemare et al., 2016; Tang et al., 2017). This is Double DQN with:

- bonus: a reward of its own for each observation that a decision leads to, beta (N + 0.01)^(-1/2), where N says how
  often it was seen; observations are counted exactly, or by cells (SimHash)
- mixed returns: targets of which a share eta is the return of the episode, bonuses included
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from bdqn.agents import ddqn
from bdqn.config.settings import setting

if TYPE_CHECKING:
    from bdqn.density.pseudo_counts import MakeDensityModel
    from bdqn.qlearning.choices import Choices


@dataclass(frozen=True)
class BonusSettings(ddqn.Settings):
    """What is common to all agents with pseudo-counts: the bonus, and how far targets trust whole episodes."""

    bonus_scale: float = setting(0.05, "beta: bonus of an observation seen once, in the unit of learning", minimum=0)
    return_share: float = setting(
        0.1, "eta: share of the episode's return in a target; 0: none, all of it is bootstrapped", minimum=0, maximum=1
    )


@dataclass(frozen=True)
class Settings(BonusSettings):
    """How observations are counted."""

    counting: Literal["fitting", "exact", "simhash"] = setting(
        "fitting",
        "exact: each observation by itself; simhash: by cells; fitting: exact where observations are discrete",
    )
    hash_bits: int = setting(64, "SimHash: hyperplanes; more of them make smaller cells", minimum=1, maximum=4096)


def choices(settings: Settings) -> Choices:
    """Double DQN's choices with a bonus by counts."""
    from functools import partial

    from bdqn.density import counts

    models: dict[str, MakeDensityModel] = {
        "exact": counts.exact_counts,
        "simhash": partial(counts.hashed_counts, bits=settings.hash_bits),
        "fitting": partial(counts.fitting_counts, bits=settings.hash_bits),
    }
    return with_bonus(settings, models[settings.counting])


def with_bonus(settings: BonusSettings, model: MakeDensityModel) -> Choices:
    """Double DQN's choices with a bonus by the pseudo-counts of a density model."""
    from bdqn.qlearning.bonuses import CountBonus

    return replace(
        ddqn.choices(settings),
        bonus=CountBonus(model, settings.bonus_scale),
        return_share=settings.return_share,
    )
