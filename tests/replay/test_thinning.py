"""What is stored with gaps is what was lived through: stacks, n-step returns and masks end at a gap, or begin after."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from bdqn.replay.buffer import Replay, bytes_per_frame
from bdqn.replay.duplicates import DuplicateFinder
from bdqn.replay.thinning import ThinnedReplay, Thinning
from support.replay import World, key, keys, n_step_key

COMPLETE, SEGMENT = 6, 5


def thinned(seed: int = 0, complete: int = COMPLETE, segment: int = SEGMENT) -> Any:
    return partial(ThinnedReplay, thinning=Thinning(complete, segment), rng=np.random.default_rng(seed))


def history(steps: int, lengths: tuple[int, ...]) -> list[tuple[str, ...]]:
    """Environments whose episodes last so many decisions; every other one is cut short, and lives are lost."""

    def event(step: int, length: int) -> str:
        if step % length == 0:
            return "truncated" if step // length % 2 else "terminated"
        return "life" if step % 17 == 0 else "go"

    return [tuple(event(step, length) for length in lengths) for step in range(1, steps + 1)]


def compare(world: World) -> int:
    """Whatever can be sampled happened just so, and only an end, a gap or the present makes a sum shorter."""
    found = {str(first): (first, *rest) for first, *rest in keys(world.replay.gather(*world.replay.index()))}
    lived_through = 0
    for episode in (episode for env in world.envs for episode in env.episodes):
        for i, lived in enumerate(episode):
            if (row := found.get(str(key(lived.obs, 0, 0, 0, 0, ())[0]))) is None:
                continue
            lived_through += 1
            steps = len(row[2])
            assert row == n_step_key(episode[i : i + steps])
            follows = episode[i + steps] if i + steps < len(episode) else None
            if steps < world.n_steps and not row[4] and follows is not None:
                assert str(np.ravel(follows.obs).tolist()) not in found
    assert lived_through == len(found) == len(world.replay)
    return len(found)


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("stack", [0, 4])
@pytest.mark.parametrize("slots", [11, 60])
def test_what_is_stored_is_what_was_lived_through(stack: int, n_steps: int, slots: int) -> None:
    """Three environments, over rings that wrap many times; masks of members and of actions, and bonuses too."""
    world = World(3, stack, slots, n_steps, members=2, masked=True, bonuses=True, kind=thinned())
    counts = []
    for number, events in enumerate(history(400, (4, 37, 150))):
        if number in (120, 123):
            world.restart()
        world.go(events)
        counts.append(compare(world))
    assert int(world.replay.written[0]) > 400 > int(world.replay.written[2]), "only long episodes have gaps"
    assert max(counts) > slots


def test_an_episode_without_late_decisions_is_stored_as_ever() -> None:
    usual, other = (World(2, 4, 30, 3, **kind) for kind in ({}, {"kind": thinned(complete=40)}))
    for events in history(100, (20, 40)):
        usual.go(events)
        other.go(events)
        assert np.array_equal(usual.replay.index(), other.replay.index())
        assert keys(usual.replay.gather(*usual.replay.index())) == keys(other.replay.gather(*other.replay.index()))


def test_late_segments_are_stored_as_often_as_asked_for() -> None:
    """One environment, one long episode after the other: the share of each segment that was stored."""
    length, episodes = 400, 400
    world = World(1, 0, 1000 * length, kind=thinned(complete=40, segment=20))
    for events in history(length, (length,)) * episodes:
        world.go(events)
    env, slot = world.replay.index()
    assert isinstance(world.replay, ThinnedReplay)
    share = np.bincount(world.replay.age[env, slot] // 20, minlength=20) / (20 * episodes)
    expected = np.array([1.0, 1.0, *(40 / decision for decision in range(40, length, 20))])
    assert share[:3].tolist() == [1.0, 1.0, 1.0]
    assert np.abs(share - expected).max() < 4 * np.sqrt(0.25 / episodes)


@pytest.mark.parametrize("stack", [0, 4])
def test_a_restored_memory_goes_on_as_the_saved_one(stack: int) -> None:
    """Cut at every moment, in gaps and out of them."""
    events = history(150, (11, 90))
    gaps = 0
    for cut in range(1, 100):
        world = World(2, stack, 25, kind=thinned(seed=7))
        for one in events[:cut]:
            world.go(one)
        saved = world.replay
        assert isinstance(saved, ThinnedReplay)
        gaps += int(saved.left_out[np.arange(2), (saved.written - 1) % saved.slots].any())
        other = World(2, stack, 25, kind=thinned()).replay
        assert isinstance(other, ThinnedReplay)
        for env in range(2):
            oldest, written = saved.oldest(env), int(saved.written[env])
            other.restore(env, oldest, saved.records(env, oldest, written))
        other._rng.bit_generator.state = saved._rng.bit_generator.state
        for one in events[cut : cut + 30]:
            world.go(one)
        expected, world.replay = keys(saved.gather(*saved.index())), other
        live_again(world, events, cut)
        assert keys(other.gather(*other.index())) == expected
        assert (other.written.tolist(), other.seen) == (saved.written.tolist(), saved.seen)
    assert 20 < gaps < 80


def live_again(world: World, events: list[tuple[str, ...]], cut: int) -> None:
    """The same 30 decisions once more, in another memory."""
    replay, again = world.replay, World(2, world.replay.stack, 25)
    for one in events[:cut]:
        again.go(one)
    again.replay = replay
    for one in events[cut : cut + 30]:
        again.go(one)


def test_the_latest_decisions_are_counted_with_those_left_out() -> None:
    """What a refit has not seen is what came in since: in a gap, nothing."""
    world = World(1, 0, 200, kind=thinned(complete=10, segment=10))
    assert isinstance(world.replay, ThinnedReplay)
    unseen = []
    for events in history(300, (150,)):
        world.go(events)
        env, slot = world.replay.latest(20)
        now = world.steps
        begun = world.replay.observations(env, slot)[:, 0]
        assert len(begun) <= 20
        assert all(frame > now - 20 for frame in begun)
        unseen.append(len(begun))
    assert min(unseen[20:]) == 0
    assert max(unseen) == 20


def test_equal_transitions_are_found_whenever_they_were_looked_for() -> None:
    """Also in a gap, where the frame that it stands at is another one at every decision."""
    world = World(1, 0, 60, kind=thinned())
    often = DuplicateFinder(world.replay)
    for events in history(300, (150,)):
        world.go(events)
        places = world.replay.index()
        often.merge(*places)
    assert np.array_equal(often._transitions(*places), looked_at_once(world.replay, *places))


def looked_at_once(replay: Replay, env: np.ndarray, slot: np.ndarray) -> np.ndarray:
    finder = DuplicateFinder(replay)
    finder.merge(env, slot)
    return finder._transitions(env, slot)


def test_what_is_noted_beside_a_frame_is_counted() -> None:
    replay = thinned()(1000, (4, 84, 84), np.uint8, stack=4)
    held = sum(array.nbytes for array in replay._arrays().values())
    assert held == 1000 * bytes_per_frame((4, 84, 84), np.uint8, 4, thinned=True) == 1000 * replay.frame_bytes
