"""A naive replay memory that keeps every stack whole, beside the real one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bdqn.replay.batch import Batch
from bdqn.replay.buffer import Replay

TERMINAL = {"life", "terminated"}  # nothing of value follows
ENDS = {"terminated", "truncated"}  # the episode is over
Key = tuple[Any, ...]

usual = st.sampled_from(["go"] * 12 + ["life", "terminated", "truncated"])


@dataclass
class NaiveEnv:
    """One environment of unique frames, and every transition it made, with its stacks written out."""

    number: int
    stack: int
    frames: int = 0  # written to the ring so far
    window: deque[tuple[int, int]] = field(default_factory=deque)  # (frame's value, when it was written)
    episodes: list[list[Transition]] = field(default_factory=list)

    def _frame(self) -> tuple[int, int]:
        self.frames += 1
        return 1000 * self.number + self.frames, self.frames - 1

    def reset(self) -> None:
        self.episodes.append([])
        self.window = deque([self._frame()] * max(self.stack, 1), maxlen=max(self.stack, 1))

    def observation(self) -> list[int] | int:
        values = [value for value, _ in self.window]
        return values if self.stack else values[0]

    def step(self, action: int, reward: float, event: str, mask: list[bool]) -> tuple[Any, Any]:
        before, oldest = self.observation(), self.window[0][1]
        self.window.append(self._frame())
        after = self.observation()
        self.episodes[-1].append(Transition(oldest, before, action, reward, after, event in TERMINAL, mask))
        if event in ENDS:
            self.reset()
        return after, self.observation()

    def intact(self, slots: int, n_steps: int) -> list[Key]:
        """The ring keeps the last ``slots`` frames; a transition needs every frame of its stack."""
        return [
            n_step_key(episode[i : i + n_steps])
            for episode in self.episodes
            for i, transition in enumerate(episode)
            if transition.oldest >= self.frames - slots
        ]


class Transition(NamedTuple):
    oldest: int  # frame that its stack needs
    obs: Any
    action: int
    reward: float
    next_obs: Any
    terminal: bool
    mask: list[bool]


def n_step_key(ahead: list[Transition]) -> Key:
    """One by one, until nothing of value follows or there is no more of the episode."""
    rewards = []
    for transition in ahead:
        rewards.append(transition.reward)
        if transition.terminal:
            break
    first = ahead[0]
    return key(first.obs, first.action, rewards, transition.next_obs, transition.terminal, first.mask)


def key(obs: Any, action: Any, rewards: Any, next_obs: Any, terminal: Any, mask: Any) -> Key:
    sums = np.ravel(rewards).tolist()
    return np.ravel(obs).tolist(), int(action), sums, np.ravel(next_obs).tolist(), bool(terminal), list(mask)


ACTIONS = 11  # more than fit into a byte


def allowed(frames: Any) -> np.ndarray:
    """A mask for each frame, which follows from its number."""
    return np.asarray(frames)[..., None] >> np.arange(ACTIONS) & 1 == 1


def bonus_of(reward: Any) -> np.ndarray:
    """A bonus for each reward, which follows from it."""
    return np.asarray(reward, np.float32) / 8


def keys(batch: Batch) -> list[Key]:
    """As ``key``; a frame is two numbers, the second the first's negative, and its mask follows from them."""
    if batch.next_allowed is not None:
        newest = batch.next_obs[:, -1, 0] if batch.next_obs.ndim == 3 else batch.next_obs[:, 0]
        assert_array_equal(batch.next_allowed, allowed(newest))
    assert_array_equal(batch.obs[..., 0], -batch.obs[..., 1])
    assert_array_equal(batch.next_obs[..., 0], -batch.next_obs[..., 1])
    if batch.bonus is not None:
        assert_array_equal(batch.bonus, bonus_of(batch.reward))
    rewards: Any = batch.reward
    if batch.steps is not None:
        assert not any(row[steps:].any() for row, steps in zip(batch.reward, batch.steps, strict=True))
        rewards = [row[:steps] for row, steps in zip(batch.reward, batch.steps, strict=True)]
    masks = [()] * len(batch.action) if batch.mask is None else batch.mask.tolist()
    columns = batch.obs[..., 0], batch.action, rewards, batch.next_obs[..., 0], batch.terminal, masks
    return [key(*row) for row in zip(*columns, strict=True)]


class World:
    """A replay memory and naive environments that live through the same history."""

    def __init__(
        self,
        num_envs: int,
        stack: int,
        slots: int,
        n_steps: int = 1,
        members: int = 0,
        masked: bool = False,
        bonuses: bool = False,
        kind: Callable[..., Replay] = Replay,
    ) -> None:
        self.slots, self.n_steps, self.members = slots, n_steps, members
        self.envs = [NaiveEnv(number, stack) for number in range(num_envs)]
        self.replay = kind(
            slots * num_envs,
            (stack, 2) if stack else (2,),
            np.int32,
            num_envs,
            stack,
            n_steps=n_steps,
            members=members,
            masked_actions=ACTIONS if masked else 0,
            bonuses=bonuses,
        )
        self.steps = 0
        self.restart()

    def restart(self) -> None:
        for env in self.envs:
            env.reset()
        first = self._array([env.observation() for env in self.envs])
        self.replay.start(first, allowed=self._masks(first))

    def go(self, events: tuple[str, ...]) -> None:
        if "restart" in events:
            self.restart()
        else:
            self.step(events[: len(self.envs)])

    def step(self, events: tuple[str, ...]) -> None:
        self.steps += 1
        actions = [(self.steps + env.number) % 7 for env in self.envs]
        rewards = [self.steps + env.number / 4 for env in self.envs]
        masks = [[bool((self.steps + env.number) >> k & 1) for k in range(self.members)] for env in self.envs]
        pairs = zip(self.envs, actions, rewards, events, masks, strict=True)
        next_obs, obs = zip(*(env.step(*rest) for env, *rest in pairs), strict=True)
        after, now = self._array(next_obs), self._array(obs)
        self.replay.add(
            np.array(actions),
            np.array(rewards),
            after,
            np.array([event in TERMINAL for event in events]),
            np.array([event in ENDS for event in events]),
            now,
            np.array(masks) if self.members else None,
            self._masks(after),
            self._masks(now),
            bonus_of(np.array(rewards)) if self.replay.bonuses is not None else None,
        )

    def expected(self) -> list[Key]:
        return [transition for env in self.envs for transition in env.intact(self.slots, self.n_steps)]

    def _masks(self, observations: np.ndarray) -> np.ndarray | None:
        if self.replay.allowed is None:
            return None
        return allowed(observations[:, -1, 0] if self.replay.stack else observations[:, 0])

    def _array(self, observations: Any) -> np.ndarray:
        return np.stack([observations, -np.array(observations)], axis=-1).astype(np.int32)
