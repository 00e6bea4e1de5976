"""Replay memory that stores the late part of an episode with gaps, so that one long episode cannot fill it.

Decisions are stored or left out by whole segments. A gap is safe for its neighbours: what is stored ends before it like
an episode that was cut short, with a final frame to bootstrap from, and begins after it with the earlier frames of the
first stack, which cannot be sampled themselves. In a gap an environment stands at one slot, which moves along with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bdqn.replay.buffer import THINNED_BYTES, Replay


@dataclass(frozen=True)
class Thinning:
    """The first ``complete`` decisions of an episode are stored; later segments with falling probability."""

    complete: int
    segment: int

    def probability(self, decision: int) -> float:
        """How probably the segment is stored that begins at this decision of an episode, counted from zero."""
        return 1.0 if decision < self.complete else self.complete / decision


class ThinnedReplay(Replay):
    """Replay over what is stored, uniformly: late decisions count for less than early ones, as they are rarer."""

    def __init__(
        self,
        capacity: int,
        obs_shape: tuple[int, ...],
        dtype: DTypeLike,
        num_envs: int = 1,
        stack: int = 0,
        *,
        thinning: Thinning,
        rng: np.random.Generator,
        **options: Any,
    ) -> None:
        """``options`` are those of `Replay`; ``rng`` decides what is stored."""
        self._thinning, self._rng = thinning, rng
        shape = num_envs, capacity // num_envs
        self.age = np.zeros(shape, np.int64)  # decisions since the episode's start, at each frame
        self.clock = np.zeros(shape, np.int64)  # decisions of its environment in all
        self.left_out = np.zeros(shape, np.bool_)  # the decision taken there is not stored
        super().__init__(capacity, obs_shape, dtype, num_envs, stack, **options)
        self.frame_bytes += THINNED_BYTES

    def latest(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As `Replay.latest`, but of the latest ``count`` decisions, of which some were left out."""
        env, slot = super().latest(count)
        now = self.clock[np.arange(self.num_envs), (self.written - 1) % self.slots]
        recent = self.clock[env, slot] >= now[env] - count
        return env[recent], slot[recent]

    def _arrays(self) -> dict[str, Any]:
        return super()._arrays() | {"age": self.age, "clock": self.clock, "left_out": self.left_out}

    def _next_slot(self, env: int) -> int:
        now = self._now(env)
        return now if self.left_out[env, now] else self._advance(env)

    def _advance(self, env: int) -> int:
        """As `Replay._advance`; the new slot belongs to no gap."""
        clock = self.clock[env, self._now(env)]
        now = super()._advance(env)
        self.clock[env, now], self.left_out[env, now] = clock, False
        return now

    def _begin_episode(self, env: int, frame: NDArray[Any], now: int) -> None:
        super()._begin_episode(env, frame, now)
        self.age[env, now], self.left_out[env, now] = 0, False
        self.clock[env, now] += 1  # the decision that ended the last one

    def _go_on(self, env: int, before: int, now: int, obs: NDArray[Any]) -> None:
        self.clock[env, now] = self.clock[env, before] + 1
        self.age[env, now] = age = int(self.age[env, before]) + 1
        if age % self._thinning.segment or age < self._thinning.complete:
            return
        is_stored = self._rng.random() < self._thinning.probability(age)
        if is_stored and self.left_out[env, now]:
            self._end_gap(env, now, obs)
        elif not is_stored and not self.left_out[env, now]:
            self.left_out[env, self._copy_to_next(env, now, obs)] = True

    def _end_gap(self, env: int, now: int, obs: NDArray[Any]) -> None:
        """Store the earlier frames of this stack first."""
        self.left_out[env, now] = False
        for back in range(int(self.reach[env, now]), 0, -1):
            following = self._copy_to_next(env, now, obs)
            self.frames[env, now] = obs[-1 - back]
            now = following

    def _copy_to_next(self, env: int, now: int, obs: NDArray[Any]) -> int:
        """Stand at the same frame once more, one slot further on."""
        following = self._advance(env)
        self.frames[env, following] = obs[-1] if self.stack else obs
        for name in {"reach", "age", "clock", "allowed"} & self._flat.keys():
            array = getattr(self, name)
            array[env, following] = array[env, now]
        return following
