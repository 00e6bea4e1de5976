"""Fits that come when the data have grown by a share, rather than at fixed intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

LOOKS = 200  # for news, in the time until the data have doubled, at most: each look costs as much as the data are many


@dataclass(frozen=True)
class Growth:
    """Fit, and update the target network, when the data have grown by a share: early fits are cheap, and decide."""

    share: float
    least: int  # decisions between two fits, at least
    most: int  # and at most
    news: float = 0.0  # new kinds of transition, as a share of those known, that do not wait until then; 0: all wait


class GrowthClock:
    """Says when a fit is due by growth."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        self.last_due = -1  # the decision at which a fit was last due; -1: never
        self.last_look = 0  # the decision at which kinds of transition were last counted

    def due(self, decision: int) -> bool:
        """Whether the data have grown enough since a fit was last due, which it then is now."""
        growth = self._growth
        gap = min(growth.most, max(growth.least, growth.share * self.last_due))
        if self.last_due >= 0 and decision - self.last_due < gap:
            return False
        self.last_due = decision
        return True

    def due_to_news(self, decision: int, known: int, kinds: Callable[[], int]) -> bool:
        """Whether there are enough kinds of transition beside the ``known`` ones for a fit, which then is due now."""
        growth = self._growth
        gap = max(growth.least, decision // LOOKS)
        if not growth.news or decision - max(self.last_due, self.last_look) < gap:
            return False
        self.last_look = decision
        if kinds() < (1 + growth.news) * known:
            return False
        self.last_due = decision
        return True
