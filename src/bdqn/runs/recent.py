"""The latest episodes of a training run, and their means."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bdqn.envs.interaction import Episode

WINDOW = 100  # episodes per mean return, as in the paper
ROLLOUT_METRICS = ("rollout/ep_rew_mean", "rollout/ep_len_mean")


class RecentEpisodes:
    """Raw return and length of the last hundred."""

    def __init__(self, episodes: Iterable[tuple[float, int]] = ()) -> None:
        self._recent: deque[tuple[float, int]] = deque(((r, n) for r, n in episodes), maxlen=WINDOW)

    def add(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            self._recent.append((episode.raw_return, episode.length))

    @property
    def mean_return(self) -> float | None:
        return fmean(r for r, _ in self._recent) if self._recent else None

    @property
    def mean_length(self) -> float | None:
        """In decisions."""
        return fmean(length for _, length in self._recent) if self._recent else None

    @property
    def are_many(self) -> bool:
        """Whether the window is full."""
        return len(self._recent) == WINDOW

    def metrics(self) -> dict[str, float]:
        """Both means by name; nothing before the first episode has ended."""
        means = (self.mean_return, self.mean_length)
        return {name: mean for name, mean in zip(ROLLOUT_METRICS, means, strict=True) if mean is not None}

    def state(self) -> list[list[float]]:
        return [list(episode) for episode in self._recent]
