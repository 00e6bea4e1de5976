"""Fits that come when the data have grown by a share, rather than at fixed intervals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Growth:
    """Fit, and update the target network, when the data have grown by a share: early fits are cheap, and decide."""

    share: float
    least: int  # decisions between two fits, at least
    most: int  # and at most


class GrowthClock:
    """Says when a fit is due by growth."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        self.last_due = -1  # the decision at which a fit was last due; -1: never

    def due(self, decision: int) -> bool:
        """Whether the data have grown enough since a fit was last due, which it then is now."""
        growth = self._growth
        gap = min(growth.most, max(growth.least, growth.share * self.last_due))
        if self.last_due >= 0 and decision - self.last_due < gap:
            return False
        self.last_due = decision
        return True
