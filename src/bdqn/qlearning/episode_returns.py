"""Returns of episodes, for targets that mix them in (mixed Monte-Carlo)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bdqn.replay.returns import discounted_returns

if TYPE_CHECKING:
    from bdqn.qlearning.targets import TDTargets
    from bdqn.replay.buffer import Replay

Places = NDArray[np.int64]


class EpisodeReturns:
    """What rewards and bonuses added up to from each transition on, until nothing of value followed.

    That is known when it has happened: not before, and not where a time limit or a restart cut the episode short. Every
    return is summed once, from frames that are newer than its transition, so that the ring still holds them. Nothing of
    this is kept in files, since it can always be made again.
    """

    def __init__(self, replay: Replay, targets: TDTargets) -> None:
        self._replay, self._targets = replay, targets
        self._returns = np.full((replay.num_envs, replay.slots), np.nan, np.float32)
        self._forget()

    def at(self, env: Places, slot: Places) -> NDArray[np.float32]:
        """The returns of the transitions that stand at these places; NaN where they are not known."""
        if self._targets.reward_unit != self._unit:  # rewards are now learned in another unit
            self._forget()
        for one in range(self._replay.num_envs):
            self._look_for_ends(one)
        now = self._replay.written[env] - 1
        frame = now - (now - slot) % self._replay.slots
        return np.where(frame < self._summed[env], self._returns[env, slot], np.float32(np.nan))

    def _forget(self) -> None:
        self._unit = self._targets.reward_unit
        # Frames are counted as the replay buffer counts them, from each environment's first.
        self._seen = np.zeros(self._replay.num_envs, np.int64)  # frames that were searched for ends
        self._summed = np.zeros(self._replay.num_envs, np.int64)  # frames up to the last end

    def _look_for_ends(self, env: int) -> None:
        replay = self._replay
        now = int(replay.written[env]) - 1
        first = max(int(self._seen[env]), replay.oldest(env))
        slots = np.arange(first, now) % replay.slots
        ends = np.flatnonzero(replay.terminals[env, slots] | ~replay.is_transition[env, slots])
        self._seen[env] = now
        if len(ends):
            self._sum_up(env, first + int(ends[-1]) + 1)

    def _sum_up(self, env: int, stop: int) -> None:
        """Returns of all frames before ``stop``, where a sum has ended."""
        replay = self._replay
        slots = np.arange(max(int(self._summed[env]), replay.oldest(env)), stop) % replay.slots
        held, bonuses = replay.is_transition[env, slots], replay.bonuses
        terminal = replay.terminals[env, slots] & held
        last = terminal | ~held | ~np.append(held[1:], True)
        bonus = None if bonuses is None else bonuses[env, slots]
        returns = discounted_returns(
            self._targets.learned_reward(replay.rewards[env, slots], bonus), last, self._targets.gamma
        )
        ends = np.flatnonzero(last)
        end = ends[np.searchsorted(ends, np.arange(len(slots)))]  # of the sum that each frame belongs to
        self._returns[env, slots] = np.where(terminal[end], returns, np.nan)
        self._summed[env] = stop
