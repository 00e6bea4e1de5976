"""Equal transitions of a replay memory are found, all of them and no others; a refit that counts them is the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import bdqn
from bdqn.replay.batch import Batch
from bdqn.replay.buffer import Replay
from bdqn.replay.duplicates import DuplicateFinder, Recurrence


class Walk:
    """A memory in which environments walk about a few cells, so that most of what happens has happened before."""

    def __init__(self, slots: int, num_envs: int, n_steps: int = 1, stack: int = 0, masked: bool = False) -> None:
        self.rng = np.random.default_rng(0)
        self.shape = (num_envs, *((stack, 2) if stack else (2,)))
        self.replay = Replay(
            slots * num_envs,
            self.shape[1:],
            np.float32,
            num_envs,
            stack,
            n_steps=n_steps,
            masked_actions=2 if masked else 0,
        )
        self.distinct = DuplicateFinder(self.replay)
        self.replay.start(self.observations(), allowed=self.masks())

    def observations(self) -> np.ndarray:
        return self.rng.integers(2, size=self.shape).astype(np.float32)

    def go(self, steps: int) -> None:
        for _ in range(steps):
            envs = self.shape[0]
            terminal = self.rng.random(envs) < 0.2
            ended = terminal | (self.rng.random(envs) < 0.1)
            rewards = self.rng.integers(2, size=envs).astype(np.float64)
            actions = self.rng.integers(2, size=envs)
            after, now = self.observations(), self.observations()
            masks = (None, self.masks(), self.masks())
            self.replay.add(actions, rewards, after, terminal, ended, now, *masks)

    def masks(self) -> np.ndarray | None:
        """Of these, the observations say nothing."""
        return None if self.replay.allowed is None else self.rng.random((self.shape[0], 2)) < 0.5


def kinds(batch: Batch) -> list[tuple[object, ...]]:
    steps = np.ones(len(batch.action)) if batch.steps is None else batch.steps
    masks = np.ones(len(batch.action)) if batch.next_allowed is None else batch.next_allowed
    columns = (batch.obs, batch.action, batch.reward, batch.next_obs, batch.terminal, steps, masks)
    return [tuple(np.ravel(part).tolist().__repr__() for part in row) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("num_envs", [1, 2])
def test_each_kind_is_found_once_with_its_count(num_envs: int, n_steps: int) -> None:
    """At several times, the ring long since full: what is overwritten must not be remembered."""
    walk = Walk(60, num_envs, n_steps)
    for _ in range(6):
        walk.go(23)
        everywhere = walk.replay.index()
        env, slot, counts = walk.distinct.merge(*everywhere)
        found = kinds(walk.replay.gather(env, slot))
        assert len(set(found)) == len(found)
        assert dict(zip(found, counts.tolist(), strict=True)) == Counter(kinds(walk.replay.gather(*everywhere)))
    assert max(counts) > 1


def recurrence_of(*transitions: tuple[int, int, int]) -> Recurrence:
    """Of episodes of one step each: where it began, the action, where it led."""
    first = np.array([[transitions[0][0]]])
    replay = Replay(100, (1,), np.int64)
    replay.start(first)
    for i, (_, action, after) in enumerate(transitions):
        begins = np.array([[transitions[i + 1][0]]]) if i + 1 < len(transitions) else first
        replay.add(np.array([action]), np.zeros(1), np.array([[after]]), np.array([True]), np.array([True]), begins)
    finder = DuplicateFinder(replay)
    return finder.recurrence(*finder.merge(*replay.index()))


def test_chance_is_how_probably_the_same_action_leads_elsewhere() -> None:
    certain, by_chance = (1, 0, 2), [(1, 1, 3), (1, 1, 3), (1, 1, 4)]  # the pair (1, 1): 2 of 3 pairs of visits differ
    assert recurrence_of(*[certain] * 4) == Recurrence(kinds=1, distinct=1 / 4, chance=0.0)
    assert recurrence_of(*by_chance) == Recurrence(kinds=2, distinct=2 / 3, chance=pytest.approx(2 / 3))
    assert recurrence_of(*[certain] * 5, *by_chance) == Recurrence(kinds=3, distinct=3 / 8, chance=pytest.approx(1 / 3))


def test_what_was_met_once_says_nothing_of_chance() -> None:
    assert recurrence_of((1, 0, 2), (1, 1, 3), (2, 0, 4)) == Recurrence(kinds=3, distinct=1.0, chance=0.0)


def test_transitions_to_other_masks_are_others() -> None:
    walk = Walk(200, 1, masked=True)
    walk.go(150)
    everywhere = walk.replay.index()
    env, slot, counts = walk.distinct.merge(*everywhere)
    found = kinds(walk.replay.gather(env, slot))
    assert set(found) == set(kinds(walk.replay.gather(*everywhere)))
    assert max(counts) > 1


def test_the_same_place_twice_counts_twice_and_the_order_stays() -> None:
    walk = Walk(60, 1)
    walk.go(40)
    slot = walk.replay.index()[1][:5]
    again = np.concatenate([slot, slot[3:4]])
    _, first, counts = walk.distinct.merge(np.zeros_like(again), again)
    assert counts.sum() == 6
    assert first.tolist() == [s for s in slot.tolist() if s in first]


def test_a_memory_that_was_read_back_is_the_same() -> None:
    walk = Walk(60, 1)
    walk.go(100)
    copy = Walk(60, 1)
    oldest, written = walk.replay.oldest(0), int(walk.replay.written[0])
    copy.replay.restore(0, oldest, walk.replay.records(0, oldest, written))
    for one, other in zip(
        walk.distinct.merge(*walk.replay.index()), copy.distinct.merge(*copy.replay.index()), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_stacks_each_stand_for_themselves() -> None:
    walk = Walk(60, 1, stack=2)
    walk.go(50)
    env, slot = walk.replay.index()
    assert walk.distinct.merge(env, slot)[2].tolist() == [1] * len(env)


@pytest.mark.parametrize("agent", ["bdqn", "bdqn-deep", "ls-dqn"])
def test_counting_equal_transitions_changes_no_fit(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same fit, and the same draws, as from every transition on its own."""
    settings = {"learning_starts": 20, "posterior_update_interval": 10_000, "n_steps": 1, "features": 8}
    if agent != "ls-dqn":
        settings |= {"noise_var": 0.1}

    def fitted() -> tuple[np.ndarray, np.ndarray]:
        learner = bdqn.make(agent, "bdqn/DeepSea10-v0", seed=0, **settings)
        learner.learn(400)
        agent_ = learner.agent
        assert agent_.fit_last_layer()
        head = agent_.online.head
        drawn = head.draw(np.random.default_rng(1), 3)
        weights = head.last.weight.detach() if agent == "ls-dqn" else head.weights
        return weights.numpy().copy(), np.zeros(1) if drawn is None else drawn.numpy().copy()

    merged = fitted()
    monkeypatch.setattr(DuplicateFinder, "merge", lambda self, env, slot: (env, slot, np.ones_like(env)))
    for counted, alone in zip(merged, fitted(), strict=True):
        np.testing.assert_allclose(counted, alone, rtol=2e-3, atol=2e-4)
