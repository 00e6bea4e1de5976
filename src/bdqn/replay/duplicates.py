"""Equal transitions, seen as one: where observations recur, a regression need not look at each of them again.

A transition is known by a hash of its two observations, with the masks of their actions, and of what lies between
them. Every frame is hashed once, when it is first asked about; nothing of this is kept in files, since it can always be
made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.replay.buffer import Replay

CHUNK = 1024  # frames that are copied together

Places = NDArray[np.int64]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Recurrence:
    """How often what was met once is met again, and whether the same then follows."""

    kinds: int = 0  # of transitions: how many differ from one another
    distinct: float = 1.0  # as a share of all of them
    chance: float = 0.0  # how probably an action that is taken once more, at the same observation, leads elsewhere

    @classmethod
    def restored(cls, state: Mapping[str, float]) -> Recurrence:
        """From its fields as a checkpoint keeps them."""
        return cls(int(state["kinds"]), float(state["distinct"]), float(state["chance"]))

    @property
    def is_common(self) -> bool:
        """Whether most transitions were met before."""
        return self.distinct <= 0.5

    @property
    def is_thorough(self) -> bool:
        """Whether a transition was met five times, on average: the world is small."""
        return self.distinct <= 0.2

    @property
    def is_exact(self) -> bool:
        """Whether the same follows, as a rule."""
        return self.chance <= 0.1


def always(recurrence: Recurrence) -> bool:
    """However often transitions recur."""
    return True


def never(recurrence: Recurrence) -> bool:
    """However often transitions recur."""
    return False


def where_transitions_recur(recurrence: Recurrence) -> bool:
    """Where most of them were met before."""
    return recurrence.is_common


class DuplicateFinder:
    """Which transitions of a replay memory are equal."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._frames = np.zeros((replay.num_envs, replay.slots), np.uint64)
        self._hashed = np.zeros(replay.num_envs, np.int64)  # frames ever hashed, as ``written`` counts them

    def merge(self, env: Places, slot: Places) -> tuple[Places, Places, Places]:
        """Equal transitions (environment, slot) as one: the first of each kind, in order, and how many it stands for.

        Stacks of frames hardly recur: there every transition stands for itself.
        """
        if self._replay.stack:
            return env, slot, np.ones_like(env)
        self._hash_new_frames()
        _, first, counts = np.unique(self._transitions(env, slot), return_index=True, return_counts=True)
        order = np.argsort(first)
        first = first[order]
        return env[first], slot[first], counts[order]

    def observations(self, env: Places, slot: Places) -> tuple[Places, Places, NDArray[np.int64]]:
        """Equal observations at these places as one: where the first of each kind stands, in order; and which is where.

        Stacks of frames are told apart by where they stand.
        """
        if not self._replay.stack:
            self._hash_new_frames()
        known = env * self._replay.slots + slot if self._replay.stack else self._frames[env, slot]
        _, first, which = np.unique(known, return_index=True, return_inverse=True)
        order = np.argsort(first)
        first = first[order]
        return env[first], slot[first], np.argsort(order)[which]

    def recurrence(self, env: Places, slot: Places, counts: Places) -> Recurrence:
        """Of what ``merge`` gave. Chance is the mean over the pairs of observation and action met more than once."""
        total = int(counts.sum())
        if self._replay.stack or not total:
            return Recurrence()
        met = _mixed([self._frames[env, slot], self._replay.outcomes(env, slot).action])
        _, pair = np.unique(met, return_inverse=True)
        times, alike = np.bincount(pair, counts), np.bincount(pair, counts * (counts - 1.0))
        often = times > 1
        differ = 1 - alike[often] / (times[often] * (times[often] - 1))  # of two of a pair's outcomes, drawn at random
        return Recurrence(len(env), len(env) / total, float(differ.mean()) if len(differ) else 0.0)

    def _hash_new_frames(self) -> None:
        replay = self._replay
        masks = replay.allowed
        for env in range(replay.num_envs):
            written = int(replay.written[env])
            new = np.arange(max(replay.oldest(env), int(self._hashed[env])), written) % replay.slots
            for start in range(0, len(new), CHUNK):
                slots = new[start : start + CHUNK]
                frames = replay.observations(np.full_like(slots, env), slots)
                beside = [b""] * len(slots) if masks is None else [mask.tobytes() for mask in masks[env, slots]]
                self._frames[env, slots] = list(map(frame_hash, frames, beside))
            self._hashed[env] = written - 1  # where it stands now may be another frame next time, if nothing is stored

    def _transitions(self, env: Places, slot: Places) -> Hashes:
        outcome = self._replay.outcomes(env, slot)
        rewards = outcome.reward.reshape(len(env), -1).view(np.uint32).T
        columns = [self._frames[env, slot], self._frames[env, outcome.next_slot], outcome.action, outcome.terminal]
        return _mixed([*columns, *rewards, *([] if outcome.steps is None else [outcome.steps])])


def _mixed(columns: Sequence[NDArray[Any]]) -> Hashes:
    """One hash of each row."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:  # the multiplier and shifts are splitmix64's
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def frame_hash(frame: NDArray[Any], beside: bytes = b"") -> int:
    """64 bits of it, and of what belongs to it."""
    return int.from_bytes(blake2b(frame.tobytes() + beside, digest_size=8).digest(), "little")
