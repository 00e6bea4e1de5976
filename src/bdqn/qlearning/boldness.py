"""Boldness: modest or bold draws, chosen segment by segment, by what each kind has returned lately.

A segment is an episode, or ten horizons 1 / (1 - gamma) of a longer one. While nothing tells the two apart, bold draws
act: they explore better, and cost nothing. After that the kind with the better record acts, but segment n goes to the
other one with probability n^(-1/2): bold draws never stop looking, but take an ever smaller share of the segments.
Where observations hardly recur there is no list of untried actions to work off: losing bold draws take 1/n of them.

While no reward above zero has been seen, modest draws have nothing to keep: all they can do better is to avoid costs.
As long as bold draws still meet new kinds of transition, such segments do not count, and they act in half of them. Once
they meet nothing new, they have their share of the decisions rather than of the segments: losing bold segments may last
a hundred times as long as modest ones, which know the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.replay.duplicates import Recurrence

KEPT = 0.9  # of a record, at each new segment: the agent learns, so old segments count little
HORIZONS = 10  # in the longest segment: a draw needs time to get where it wants to go
PATIENCE = 5  # bold decisions for each known kind of transition, after which nothing new is expected
MODEST, BOLD = 0, 1
NAMES = ("modest", "bold")
METRICS = ("explore/modest_return", "explore/bold_return", "explore/segments")


@dataclass(frozen=True)
class Bold:
    """When bold draws act, and for how long."""

    decay: float  # segment n goes to the worse kind of draw with probability n^-decay; 0: all draws are bold
    decay_unlike: float  # the same for bold draws where most transitions are unlike all others
    leaves_loops: bool  # a draw that goes round in circles is replaced
    while_new: bool = True  # with nothing gained, segments do not count as long as there are new kinds of transition
    uniform_unlike: bool = False  # where most transitions are unlike all others, boldness is to act at random


class Boldness:
    """Which kind of draw acts in each of N environments."""

    def __init__(self, choice: Bold, gamma: float, num_envs: int, rng: np.random.Generator) -> None:
        self._choice, self._rng = choice, rng
        self.recurrence = Recurrence()  # of what the draws were fitted to
        self.length = HORIZONS * round(1 / max(1 - gamma, 1e-6))  # of the longest segment, in decisions
        self.kinds = np.full(num_envs, BOLD)
        self._segments = 0  # since the two kinds first differed, and there was something to keep
        self._gained = False  # a reward above zero, ever
        self._in_vain = 0  # bold decisions since a fit last met new kinds of transition
        self._total, self._weight = np.zeros(2), np.zeros(2)
        self._length = np.ones(2)  # of the last segment of each kind, in decisions
        self._return, self._steps = np.zeros(num_envs), np.zeros(num_envs, np.int64)

    def apart(self, num_envs: int, rng: np.random.Generator) -> Boldness:
        """One that begins with this one's records, and goes on by itself in other environments."""
        other = copy(self)
        other._rng, other._total, other._weight = rng, self._total.copy(), self._weight.copy()
        other._length = self._length.copy()
        other._return, other._steps = np.zeros(num_envs), np.zeros(num_envs, np.int64)
        other.kinds = np.array([other._pick(BOLD) for _ in range(num_envs)])
        return other

    def fitted(self, recurrence: Recurrence) -> None:
        """Draws come from a new fit, to transitions that recur like this."""
        if recurrence.kinds > self.recurrence.kinds:
            self._in_vain = 0
        self.recurrence = recurrence

    @property
    def records(self) -> NDArray[np.float64]:
        """The mean return of recent segments, modest and bold; NaN before the first."""
        return np.where(self._weight > 0, self._total / np.maximum(self._weight, 1e-300), np.nan)

    def add(self, reward: NDArray[np.float64], ended: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """One more decision in each environment; says where a segment ends, so that another kind may act."""
        self._return += reward
        self._steps += 1
        self._gained = self._gained or bool((reward > 0).any())
        self._in_vain += int(np.count_nonzero(self.kinds))  # of bold draws
        over = ended | (self._steps >= self.length)
        for env in over.nonzero()[0]:
            kind = self.kinds[env]
            self._total[kind] = KEPT * self._total[kind] + self._return[env]
            self._weight[kind] = KEPT * self._weight[kind] + 1
            self._length[kind] = self._steps[env]
            self._return[env], self._steps[env] = 0.0, 0
            self.kinds[env] = self._pick(int(kind))
        return over

    def _pick(self, kind: int) -> int:
        if not self._choice.decay:
            return kind
        if not self._weight.all():
            return int(np.argmin(self._weight))
        records = self.records
        if abs(records[MODEST] - records[BOLD]) <= 1e-9 * np.abs(records).max():
            return BOLD
        self._segments = 1 if self._has_nothing_to_keep else self._segments + 1
        better, worse = (MODEST, BOLD) if records[MODEST] > records[BOLD] else (BOLD, MODEST)
        return worse if self._rng.random() < self._share(worse) else better

    def _share(self, worse: int) -> float:
        """How probably a segment goes to the worse kind of draw."""
        if worse == BOLD and not self.recurrence.is_common:
            return float(min(0.5, self._segments**-self._choice.decay_unlike))
        share = min(0.5, self._segments**-self._choice.decay)
        if worse == BOLD and not self._meets_news:
            share *= min(1.0, self._length[MODEST] / self._length[BOLD])
        return float(share)

    @property
    def _meets_news(self) -> bool:
        """Whether bold draws met new kinds of transition in the time that it takes to see all known ones again."""
        return self._in_vain <= PATIENCE * self.recurrence.kinds

    @property
    def _has_nothing_to_keep(self) -> bool:
        return self._choice.while_new and not self._gained and self._meets_news and self.recurrence.is_common

    @property
    def at_random(self) -> NDArray[np.bool_]:
        """Where boldness is to act at random."""
        anywhere = self._choice.uniform_unlike and not self.recurrence.is_common
        return np.asarray((self.kinds == BOLD) & anywhere)

    def metrics(self) -> dict[str, float]:
        """What each kind has returned, and the segments that count since they first differed.

        The return of a kind that has not acted yet is left out.
        """
        values = (*self.records, self._segments)
        return {name: float(value) for name, value in zip(METRICS, values, strict=True) if np.isfinite(value)}

    def state(self) -> dict[str, Any]:
        return {
            "kinds": self.kinds,
            "segments": self._segments,
            "gained": self._gained,
            "in_vain": self._in_vain,
            "recurrence": asdict(self.recurrence),
            "total": self._total,
            "length": self._length,
            "weight": self._weight,
            "return": self._return,
            "steps": self._steps,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` gave."""
        self.kinds, self._total, self._weight, self._length, self._return, self._steps = (
            np.array(state[name]) for name in ("kinds", "total", "weight", "length", "return", "steps")
        )
        self._segments, self.recurrence = int(state["segments"]), Recurrence.restored(state["recurrence"])
        self._gained, self._in_vain = bool(state["gained"]), int(state["in_vain"])
