"""Replay memory that stores every frame once.

Each of N environments writes its own ring of frames: the latest is where that environment stands now, the one after it
is the oldest. A transition is a frame, the action taken there and the frame that follows. Where an
episode ends, its final frame takes a slot of its own, so that a truncated episode can still be bootstrapped; a ring
of ``capacity`` frames therefore holds one transition fewer per episode. Stacks of frames are put together when they
are sampled, under the rule that the environments use: before its fourth frame an episode repeats its first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bdqn.replay.batch import Batch, Masks, Numbers, Outcomes
from bdqn.replay.compression import ASSUMED, PackedFrames

Records = dict[str, NDArray[Any]]
THINNED_BYTES = 17  # what `bdqn.replay.thinning` notes beside each frame
ReturnsOf = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32]]


def bytes_per_frame(
    obs_shape: tuple[int, ...],
    dtype: DTypeLike,
    stack: int,
    packed: bool = False,
    members: int = 0,
    masked_actions: int = 0,
    bonuses: bool = False,
    thinned: bool = False,
) -> int:
    """Memory that one slot takes: its frame (an estimate where it is packed), and what is noted beside it."""
    frame = obs_shape[1:] if stack else obs_shape
    beside = (np.int64, np.float32, np.bool_, np.bool_, np.uint8, *([np.float32] if bonuses else []))
    size = int(np.prod(frame)) * np.dtype(dtype).itemsize
    noted = sum(np.dtype(kind).itemsize for kind in beside) + members + _bytes_for(masked_actions)
    noted += THINNED_BYTES if thinned else 0
    return (size // ASSUMED + 64 if packed else size) + noted


def _bytes_for(bits: int) -> int:
    return -(-bits // 8)


class Replay:
    """Uniform replay over ``capacity`` frames, shared equally among ``num_envs`` environments."""

    def __init__(
        self,
        capacity: int,
        obs_shape: tuple[int, ...],
        dtype: DTypeLike,
        num_envs: int = 1,
        stack: int = 0,
        *,
        packed: bool = False,
        n_steps: int = 1,
        members: int = 0,
        masked_actions: int = 0,
        bonuses: bool = False,
    ) -> None:
        """``stack`` = k says that observations are the last k frames (k, *frame); 0, that they share nothing.

        With ``members`` every transition has a mask, which says which of them may learn from it. With
        ``masked_actions`` every frame has one, which says which of so many actions are allowed there. With ``bonuses``
        every transition has one beside its reward.
        """
        slots = capacity // num_envs
        if slots < stack + 2:
            raise ValueError(
                f"buffer_size {capacity} leaves {slots} frames for each of {num_envs} environments; "
                f"at least {stack + 2} are needed."
            )
        self.obs_shape, self.stack, self.n_steps = obs_shape, stack, n_steps
        self.frame_bytes = bytes_per_frame(obs_shape, dtype, stack, packed, members, masked_actions, bonuses)
        frame = obs_shape[1:] if stack else obs_shape
        # np.zeros reserves address space; memory is taken only as the ring fills.
        shape = (num_envs, slots, *frame)
        self.frames: NDArray[Any] | PackedFrames = PackedFrames(shape, dtype) if packed else np.zeros(shape, dtype)
        self.actions = np.zeros((num_envs, slots), np.int64)
        self.rewards = np.zeros((num_envs, slots), np.float32)
        self.bonuses = np.zeros((num_envs, slots), np.float32) if bonuses else None
        self.terminals = np.zeros((num_envs, slots), np.bool_)
        self.is_transition = np.zeros((num_envs, slots), np.bool_)
        self.masks = np.zeros((num_envs, slots, members), np.bool_) if members else None
        self.masked_actions = masked_actions
        self.allowed = np.zeros((num_envs, slots, _bytes_for(masked_actions)), np.uint8) if masked_actions else None
        # How many earlier frames of its episode a slot's stack reaches back to: min(steps since reset, stack - 1).
        self.reach = np.zeros((num_envs, slots), np.uint8)
        self.written = np.ones(num_envs, np.int64)  # frames ever written, the current one included
        self.seen = 0  # transitions ever written, give or take one per episode
        self.returns_of: ReturnsOf | None = None  # what followed transitions in all, if somebody keeps account of it
        self._lookback = np.arange(max(stack, 1) - 1, -2, -1)  # stack-1, ..., 1, 0, -1: oldest frame to next frame
        self._flat = self._flattened()

    def _flattened(self) -> dict[str, Any]:
        """Views of the arrays with all environments in one row."""
        return {name: array.reshape(-1, *array.shape[2:]) for name, array in self._arrays().items()}

    def __getstate__(self) -> dict[str, Any]:
        """A copy makes views of its own: copied one by one, they would part from their arrays."""
        return {name: value for name, value in vars(self).items() if name != "_flat"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._flat = self._flattened()

    @property
    def slots(self) -> int:
        """Frames per environment."""
        return int(self.frames.shape[1])

    @property
    def num_envs(self) -> int:
        return int(self.frames.shape[0])

    def __len__(self) -> int:
        """How many transitions can be sampled now."""
        return len(self.index()[0])

    def index(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where every transition stands that can be sampled now (environment, slot)."""
        env, slot = np.nonzero(self.is_transition)
        if not self.stack:
            return env, slot
        intact = self._intact(env, slot)
        return env[intact], slot[intact]

    def latest(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the transitions stand among each environment's latest ``count`` frames (environment, slot).

        Those whose n-step return may still grow, because the present is near, are left out.
        """
        age = np.arange(self.n_steps, min(count, self.slots - 1) + 1)  # 0 is the current frame's
        env = np.repeat(np.arange(self.num_envs), len(age))
        slot = (self.written[env] - 1 - np.tile(age, self.num_envs)) % self.slots
        found = self._can_be_sampled(env, slot)
        return env[found], slot[found]

    def settled(self, first: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the transitions stand from each environment's frame ``first`` on, counted from its very first one.

        Those whose n-step return may still grow are left out.
        """
        ends = self.written - self.n_steps
        places = [np.arange(max(first[env], self.oldest(env)), ends[env]) for env in range(self.num_envs)]
        env = np.repeat(np.arange(self.num_envs), [len(place) for place in places])
        slot = np.concatenate(places) % self.slots
        found = self._can_be_sampled(env, slot)
        return env[found], slot[found]

    def rewards_in_order(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]]:
        """The rewards held, from the oldest on, environment by environment.

        With them: which are the last of an episode or of a life, or of what has been seen; and which of these a time
        limit cut short.
        """
        for env in range(self.num_envs):
            slots = np.arange(self.oldest(env), int(self.written[env])) % self.slots
            held, terminal = self.is_transition[env, slots], self.terminals[env, slots]
            last = terminal | ~np.append(held[1:], False)
            cut = last & ~terminal
            cut[-2:] = False  # before the frame where it stands now
            yield self.rewards[env, slots][held], last[held], cut[held]

    def rms_reward(self) -> float:
        """Root mean square of the nonzero rewards held; 0 if there is none."""
        rewards = self.rewards[self.is_transition]
        rewards = rewards[rewards != 0].astype(np.float64)
        return float(np.sqrt(np.mean(rewards**2))) if len(rewards) else 0.0

    def start(self, obs: NDArray[Any], envs: NDArray[np.int64] | None = None, allowed: Masks = None) -> None:
        """These environments (all of them) stand at an episode's first observation; an unfinished one is cut there."""
        has_begun = (self.written > 1).any()
        newest = self._newest(obs)
        for env in range(self.num_envs) if envs is None else envs.tolist():
            now = self._advance(env) if has_begun else self._now(env)
            self._begin_episode(env, newest[env], now)
            self._note_allowed(env, now, allowed)

    def add(
        self,
        action: NDArray[np.int64],
        reward: NDArray[np.float64],
        next_obs: NDArray[Any],
        terminal: NDArray[np.bool_],
        ended: NDArray[np.bool_],
        obs: NDArray[Any],
        mask: Masks = None,
        next_allowed: Masks = None,
        allowed: Masks = None,
        bonus: Numbers = None,
    ) -> None:
        """Every environment took an action; ``obs`` is where it stands now, a reset observation where it ``ended``.

        ``next_allowed`` and ``allowed`` (environments, actions) are the masks at ``next_obs`` and ``obs``.
        """
        final, first = self._newest(next_obs), self._newest(obs)
        for env in range(self.num_envs):  # one by one, as they were stepped: for a few, index arrays take longer
            before = self._now(env)
            self.actions[env, before] = action[env]
            self.rewards[env, before] = reward[env]
            self.terminals[env, before] = terminal[env]
            if self.bonuses is not None:
                assert bonus is not None
                self.bonuses[env, before] = bonus[env]
            if self.masks is not None:
                assert mask is not None
                self.masks[env, before] = mask[env]
            now = self._next_slot(env)
            self.frames[env, now] = final[env]
            if self.stack:
                self.reach[env, now] = min(int(self.reach[env, before]) + 1, self.stack - 1)
            self.is_transition[env, before] = now != before
            self._note_allowed(env, now, next_allowed)
            if ended[env]:
                now = self._next_slot(env)
                self._begin_episode(env, first[env], now)
                self._note_allowed(env, now, allowed)
            else:
                self._go_on(env, before, now, next_obs[env])

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """``size`` transitions, uniformly and with replacement."""
        return self.gather(*self.sample_index(size, rng))

    def sample_index(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where ``size`` transitions stand (environment, slot), drawn uniformly by rejection."""
        filled = min(int(self.written.max()), self.slots)
        found: list[NDArray[np.int64]] = []
        missing = size
        for _ in range(10_000):
            pick = rng.integers(filled * self.num_envs, size=missing)
            env, slot = np.divmod(pick, filled)
            valid = self._can_be_sampled(env, slot)
            if not found and valid.all():
                return env, slot
            found.append(pick[valid])
            missing -= len(found[-1])
            if not missing:
                return np.divmod(np.concatenate(found), filled)
        raise ValueError("The replay buffer holds no transition to sample yet.")

    def gather(self, env: NDArray[np.int64], slot: NDArray[np.int64]) -> Batch:
        """The transitions that stand at these places."""
        outcomes = self.outcomes(env, slot)
        if self.stack and self.n_steps == 1:
            obs, next_obs = self._adjacent_stacks(env, slot)
        else:
            obs, next_obs = self.observations(env, slot), self.observations(env, outcomes.next_slot)
        masks = None if self.masks is None else self._flat["masks"].take(env * self.slots + slot, axis=0)
        allowed = None if self.allowed is None else self.allowed_at(env, outcomes.next_slot)
        returns = None if self.returns_of is None else self.returns_of(env, slot)
        action, reward, terminal = outcomes.action, outcomes.reward, outcomes.terminal
        return Batch(obs, action, reward, next_obs, terminal, outcomes.steps, masks, allowed, outcomes.bonus, returns)

    def outcomes(self, env: NDArray[np.int64], slot: NDArray[np.int64]) -> Outcomes:
        """The same transitions without their observations."""
        start, flat = env * self.slots, self._flat
        if self.n_steps == 1:
            action, reward, terminal = (flat[name].take(start + slot) for name in ("actions", "rewards", "terminals"))
            bonus = None if self.bonuses is None else flat["bonuses"].take(start + slot)
            return Outcomes(action, reward, (slot + 1) % self.slots, terminal, None, bonus)
        ahead = start[:, None] + (slot[:, None] + np.arange(self.n_steps)) % self.slots  # (batch, n)
        # No transition starts at an episode's final frame, nor at the present one: there the sum ends. It also ends
        # where nothing of value follows, though the episode may go on (a lost life).
        counts = flat["is_transition"].take(ahead)
        counts[:, 1:] &= ~flat["terminals"].take(ahead[:, :-1])
        counts = np.logical_and.accumulate(counts, axis=1)
        steps = counts.sum(1)
        return Outcomes(
            flat["actions"].take(ahead[:, 0]),
            np.where(counts, flat["rewards"].take(ahead), np.float32(0)),
            (slot + steps) % self.slots,
            flat["terminals"].take(ahead[np.arange(len(ahead)), steps - 1]),
            steps,
            None if self.bonuses is None else np.where(counts, flat["bonuses"].take(ahead), np.float32(0)),
        )

    def _adjacent_stacks(self, env: NDArray[np.int64], slot: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """obs and next_obs share all frames but one, so one gather of stack + 1 frames serves both."""
        start, flat = env * self.slots, self._flat
        back = np.minimum(self._lookback, flat["reach"].take(start + slot)[:, None])
        frames = flat["frames"].take(start[:, None] + (slot[:, None] - back) % self.slots, axis=0)
        return _by_pixel(frames[:, :-1]), _by_pixel(frames[:, 1:])

    def observations(self, env: NDArray[np.int64], slot: NDArray[np.int64]) -> NDArray[Any]:
        """The observations that stand at these places."""
        start, flat = env * self.slots, self._flat
        if not self.stack:
            return np.asarray(flat["frames"].take(start + slot, axis=0))
        back = np.minimum(self._lookback[:-1], flat["reach"].take(start + slot)[:, None])
        return _by_pixel(flat["frames"].take(start[:, None] + (slot[:, None] - back) % self.slots, axis=0))

    def allowed_at(self, env: NDArray[np.int64], slot: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which actions are allowed at these places (n, actions)."""
        packed = self._flat["allowed"].take(env * self.slots + slot, axis=0)
        return np.unpackbits(packed, axis=1, count=self.masked_actions).view(np.bool_)

    # --- its durable copy -------------------------------------------------------------------------------------

    def oldest(self, env: int) -> int:
        """Which frame of an environment, counted from its first, is the oldest that the ring still holds."""
        return max(0, int(self.written[env]) - self.slots)

    def records(self, env: int, start: int, stop: int) -> Records:
        """Copies of frames ``start`` to ``stop`` and of what is noted beside them.

        Whatever is older than the current frame never changes again.
        """
        slots = np.arange(start, stop) % self.slots
        return {name: array[env, slots] for name, array in self._arrays().items()}

    def restore(self, env: int, start: int, records: Records) -> None:
        """Put back what ``records`` gave; the last of them is now the current frame."""
        count = len(records["reach"])
        slots = np.arange(start, start + count) % self.slots
        for name, array in self._arrays().items():
            array[env, slots] = records[name]
        self.seen += start + count - int(self.written[env])
        self.written[env] = start + count

    def _arrays(self) -> dict[str, Any]:
        return {
            "frames": self.frames,
            "actions": self.actions,
            "rewards": self.rewards,
            "terminals": self.terminals,
            "is_transition": self.is_transition,
            "reach": self.reach,
            **({} if self.bonuses is None else {"bonuses": self.bonuses}),
            **({} if self.masks is None else {"masks": self.masks}),
            **({} if self.allowed is None else {"allowed": self.allowed}),
        }

    def record_layout(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Kind and shape of one record's parts."""
        return {name: (array.dtype, array.shape[2:]) for name, array in self._arrays().items()}

    def _now(self, env: int) -> int:
        """The slot where an environment stands."""
        return (int(self.written[env]) - 1) % self.slots

    def _next_slot(self, env: int) -> int:
        """The slot for an environment's next frame: the same again while its decisions are not to be stored."""
        return self._advance(env)

    def _go_on(self, env: int, before: int, now: int, obs: NDArray[Any]) -> None:
        """An episode went on from one slot to another, where this (with its stack) is observed."""

    def _advance(self, env: int) -> int:
        """Move on by one slot, whose old transition is thereby forgotten."""
        self.written[env] += 1
        self.seen += 1
        now = self._now(env)
        self.is_transition[env, now] = False
        return now

    def _begin_episode(self, env: int, frame: NDArray[Any], now: int) -> None:
        self.frames[env, now] = frame
        self.reach[env, now] = 0

    def _note_allowed(self, env: int, now: int, allowed: Masks) -> None:
        if self.allowed is not None:
            assert allowed is not None
            self.allowed[env, now] = np.packbits(allowed[env])

    def _newest(self, obs: NDArray[Any]) -> NDArray[Any]:
        return obs[:, -1] if self.stack else obs

    def _can_be_sampled(self, env: NDArray[np.int64], slot: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether a transition stands at a place, with all of its frames."""
        valid: NDArray[np.bool_] = self._flat["is_transition"].take(env * self.slots + slot)
        if self.stack:
            valid &= self._intact(env, slot)
        return valid

    def _intact(self, env: NDArray[np.int64], slot: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether a slot's stack reaches back to frames that the ring has not overwritten."""
        written = self.written[env]
        age = (slot - written) % self.slots  # 0 for the oldest frame of a full ring
        return np.asarray((written < self.slots) | (age >= self.reach[env, slot]))


def _by_pixel(stacks: NDArray[Any]) -> NDArray[Any]:
    """The same stacks (n, stack, height, width), but in memory pixel by pixel, which convolutions are faster on."""
    n, stack, *sides = stacks.shape
    pixels = np.empty((n, *sides, stack), stacks.dtype)
    for k in range(stack):
        pixels[..., k] = stacks[:, k]
    return np.moveaxis(pixels, -1, 1)
