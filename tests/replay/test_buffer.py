"""The memory against a naive one that keeps every stack whole, over histories with every kind of edge."""

from __future__ import annotations

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bdqn.replay.buffer import Replay, bytes_per_frame
from support.replay import World, keys, usual


def live(num_envs: int, stack: int, slots: int, history: list[tuple[str, ...]]) -> World:
    world = World(num_envs, stack, slots)
    for events in history:
        world.go(events)
    return world


histories = st.lists(st.one_of(*[st.tuples(usual, usual, usual)] * 15, st.just(("restart",) * 3)), min_size=20)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    num_envs=st.integers(1, 3),
    stack=st.sampled_from([0, 4]),
    spare=st.integers(0, 12),
    n_steps=st.sampled_from([1, 2, 3, 5, 30]),  # the last is more than a ring holds
    members=st.sampled_from([0, 3]),
    masked=st.booleans(),
    bonuses=st.booleans(),
    history=histories,
)
def test_exactly_the_intact_transitions_can_be_sampled_and_equal_the_naive_ones(
    num_envs: int,
    stack: int,
    spare: int,
    n_steps: int,
    members: int,
    masked: bool,
    bonuses: bool,
    history: list[tuple[str, ...]],
) -> None:
    world = World(num_envs, stack, stack + 2 + spare, n_steps, members, masked, bonuses)
    rng = np.random.default_rng(0)
    for events in history:
        world.go(events)
        expected = world.expected()
        assert len(world.replay) == len(expected)
        if expected:
            assert all(transition in expected for transition in keys(world.replay.sample(8, rng)))
    if expected:  # at most 54, so 2000 draws miss none
        found = {str(transition): transition for transition in keys(world.replay.sample(2000, rng))}
        assert sorted(found.values()) == sorted(expected)


def cycle(length: int) -> list[tuple[str, ...]]:
    """Three environments whose episodes last 3, 7 and 10 decisions."""
    ends = {0: 3, 1: 7, 2: 10}
    return [tuple("truncated" if (step + 1) % ends[env] == 0 else "go" for env in range(3)) for step in range(length)]


@pytest.mark.parametrize("stack", [0, 4])
@pytest.mark.parametrize("length", [12, 100])  # before and after the rings are full
def test_sampling_is_uniform(stack: int, length: int) -> None:
    world = live(3, stack, 20, cycle(length))
    drawn = [str(k) for k in keys(world.replay.sample(60_000, np.random.default_rng(1)))]
    counts = [drawn.count(str(transition)) for transition in world.expected()]
    assert sum(counts) == 60_000
    assert stats.chisquare(counts).pvalue > 0.001


def test_before_its_fourth_frame_an_episode_repeats_its_first() -> None:
    world = live(1, 4, 50, [("go",), ("go",), ("terminated",), ("go",)])
    stacks = [(transition[0], transition[3]) for transition in world.expected()]
    assert stacks == [
        ([1, 1, 1, 1], [1, 1, 1, 2]),
        ([1, 1, 1, 2], [1, 1, 2, 3]),
        ([1, 1, 2, 3], [1, 2, 3, 4]),
        ([5, 5, 5, 5], [5, 5, 5, 6]),
    ]
    env, slot = np.zeros(4, int), np.array([0, 1, 2, 4])  # slot 3 holds the final frame
    assert [(k[0], k[3]) for k in keys(world.replay.gather(env, slot))] == stacks


def test_the_sum_of_rewards_ends_with_a_life_an_episode_or_the_present() -> None:
    world = live(1, 0, 20, [("go",), ("go",), ("life",), ("go",), ("truncated",), ("go",), ("terminated",), ("go",)])
    batch = world.replay.gather(np.zeros(8, int), np.array([0, 1, 2, 3, 4, 6, 7, 9]))
    assert batch.reward.ndim == 1  # one step: no sum, and nothing else that was not there before
    assert (batch.steps, batch.mask) == (None, None)
    world.replay.n_steps = 3
    batch = world.replay.gather(np.zeros(8, int), np.array([0, 1, 2, 3, 4, 6, 7, 9]))
    assert batch.steps.tolist() == [3, 2, 1, 2, 1, 2, 1, 1]
    assert batch.reward[:3].tolist() == [[1, 2, 3], [2, 3, 0], [3, 0, 0]]
    assert batch.terminal.tolist() == [True, True, True, False, False, True, True, False]
    assert batch.next_obs[:, 0].tolist() == [4, 4, 4, 6, 6, 9, 9, 11]


def test_a_transition_keeps_its_mask_until_another_takes_its_place() -> None:
    world = World(1, 0, 8, members=3)
    seen: dict[str, set[str]] = {}
    for _ in range(40):  # five laps
        world.step(("go",))
        for obs, *_, mask in keys(world.replay.gather(*world.replay.index())):
            seen.setdefault(str(obs), set()).add(str(mask))
    assert len(seen) == 40
    assert all(len(masks) == 1 for masks in seen.values())
    assert len(set().union(*seen.values())) == 8


def test_a_restart_cuts_the_episode_without_joining_it_to_the_next() -> None:
    world = live(2, 4, 30, [("go", "go")] * 3)
    world.restart()
    world.step(("go", "go"))
    found = keys(world.replay.sample(500, np.random.default_rng(2)))
    assert len(world.replay) == 8
    assert ([5, 5, 5, 5], [5, 5, 5, 6]) in [(k[0], k[3]) for k in found]
    assert not any({4, 5} <= set(k[0] + k[3]) for k in found)


def test_rewards_and_ends_are_stored_as_given() -> None:
    world = live(1, 0, 10, [("life",), ("truncated",), ("terminated",), ("go",)])
    batch = world.replay.gather(np.zeros(4, int), np.array([0, 1, 3, 5]))
    assert batch.terminal.tolist() == [True, False, True, False]
    assert batch.reward.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert batch.action.dtype == np.int64
    assert batch.reward.dtype == np.float32


@pytest.mark.parametrize("stack", [0, 4])
def test_a_restored_memory_samples_and_goes_on_as_the_saved_one(stack: int) -> None:
    world, other = live(3, stack, 20, cycle(33)), live(3, stack, 20, cycle(4))
    for env in range(3):
        oldest, written = world.replay.oldest(env), int(world.replay.written[env])
        other.replay.restore(env, oldest, world.replay.records(env, oldest, written))
    saved, world.replay = world.replay, other.replay
    for _ in range(2):
        assert len(world.replay) == len(world.expected())
        for seed in range(3):
            found = keys(world.replay.sample(200, np.random.default_rng(seed)))
            assert {str(k) for k in found} <= {str(k) for k in world.expected()}
            if saved is not None:
                assert found == keys(saved.sample(200, np.random.default_rng(seed)))
        saved = None
        for events in cycle(9):
            world.step(events)


@pytest.mark.parametrize(("num_envs", "stack", "capacity"), [(1, 0, 1), (1, 4, 5), (3, 4, 17)])
def test_a_memory_too_small_for_one_transition_is_refused(num_envs: int, stack: int, capacity: int) -> None:
    shape = (4, 2) if stack else (2,)
    with pytest.raises(ValueError, match=f"buffer_size {capacity} .* at least {stack + 2} are needed"):
        Replay(capacity, shape, np.uint8, num_envs, stack)
    Replay(capacity + 1, shape, np.uint8, num_envs, stack)


def test_an_empty_memory_says_so() -> None:
    world = World(2, 4, 10)
    assert len(world.replay) == 0
    with pytest.raises(ValueError, match="no transition"):
        world.replay.sample(1, np.random.default_rng(0))


def test_a_million_atari_frames_fit_and_are_paid_for_only_when_used() -> None:
    shape = (4, 84, 84)
    assert bytes_per_frame(shape, np.uint8, 4) * 1_000_000 <= 7.5e9
    process = psutil.Process()
    before = process.memory_info().rss
    replay = Replay(1_000_000, shape, np.uint8, num_envs=8, stack=4)
    assert process.memory_info().rss - before < 50e6
    assert held_bytes(replay) == pytest.approx(bytes_per_frame(shape, np.uint8, 4) * 1_000_000, rel=1e-6)
    masked = Replay(1000, shape, np.uint8, stack=4, members=10)
    assert held_bytes(masked) == 1000 * bytes_per_frame(shape, np.uint8, 4, members=10)
    rewarded = Replay(1000, shape, np.uint8, stack=4, bonuses=True)
    assert held_bytes(rewarded) == 1000 * bytes_per_frame(shape, np.uint8, 4, bonuses=True)


def held_bytes(replay: Replay) -> int:
    return sum(array.nbytes for array in replay._arrays().values())


def ring(n_steps: int, ends: list[int], count: int = 12) -> Replay:
    """Two environments whose frames say at which decision they were seen; the first one's episodes end after these."""
    replay = Replay(20, (), np.int64, num_envs=2, n_steps=n_steps)
    replay.start(np.zeros(2, np.int64))
    for decision in range(count):
        ended = np.array([decision in ends, False])
        now = np.full(2, decision + 1)
        replay.add(np.zeros(2, np.int64), np.ones(2), now, ended, ended, now)
    return replay


def latest(replay: Replay, count: int) -> list[list[int]]:
    """Of each environment, the decisions at which its latest transitions began."""
    env, slot = replay.latest(count)
    return [sorted(replay.observations(env[env == i], slot[env == i]).tolist()) for i in range(2)]


def test_the_latest_transitions_are_found_in_every_ring() -> None:
    """A final frame takes a slot of its own, so an episode's end makes them one fewer, never one too old."""
    assert latest(ring(1, []), 3) == [[9, 10, 11]] * 2
    assert latest(ring(1, [10]), 4) == [[9, 10, 11], [8, 9, 10, 11]]
    assert latest(ring(1, []), 1_000) == [list(range(3, 12))] * 2, "all that ten frames hold"
    assert latest(ring(1, [], count=2), 1_000) == [[0, 1]] * 2


def test_the_latest_transitions_have_whole_returns() -> None:
    replay = ring(4, [])
    assert latest(replay, 6) == [[6, 7, 8]] * 2
    steps = replay.outcomes(*replay.latest(6)).steps
    assert steps is not None
    assert (steps == 4).all()
    assert latest(replay, 3) == [[], []]


@pytest.mark.parametrize("n_steps", [1, 3])
def test_settled_transitions_are_handed_out_once_and_never_change_again(n_steps: int) -> None:
    replay = Replay(64, (1,), np.float32, 2, n_steps=n_steps)
    replay.start(np.zeros((2, 1), np.float32))
    rng, first, seen = np.random.default_rng(0), np.zeros(2, np.int64), []
    for now in range(1, 26):
        obs = np.full((2, 1), now, np.float32)
        ended = rng.random(2) < 0.2
        replay.add(np.zeros(2, np.int64), np.full(2, float(now)), obs, ended, ended, obs)
        env, slot = replay.settled(first)
        first = np.maximum(first, replay.written - n_steps)
        seen += list(zip(env, slot, replay.outcomes(env, slot).reward.tolist(), strict=True))
    places = [(env, slot) for env, slot, _ in seen]
    assert len(places) == len(set(places))
    everything = set(zip(*replay.index(), strict=True))
    waiting = everything - set(places)
    assert set(places) <= everything
    assert len(waiting) <= 2 * (n_steps - 1)
    for env, slot, reward in seen:
        assert replay.outcomes(np.array([env]), np.array([slot])).reward.tolist() == [reward]
