"""The replay memory against a naive one, now through files too; and what a million Atari transitions take.

Histories hold every kind of edge: episodes that end or are cut, several environments, rings that wrap many times,
checkpoints at any moment, falls back to an older one, and disks that fail for a while.
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bdqn.replay.buffer import Replay, bytes_per_frame
from bdqn.storage.replay_segments import ReplayFiles, restore
from support.processes import elsewhere
from support.replay import World, keys, usual

MEMORY_DISK = "/dev/shm" if Path("/dev/shm").is_dir() else None  # thousands of flushes, which are others' concern


class DurableWorld(World):
    """A world whose memory is kept in files, as a run keeps it; the naive one remembers all by itself."""

    def __init__(self, num_envs: int, stack: int, slots: int, root: Path) -> None:
        super().__init__(num_envs, stack, slots, members=2)
        self._shape = ((stack, 2) if stack else (2,), np.int32, num_envs, stack)
        self._root, self._folder = root, root / "replay"
        self._files = ReplayFiles(self._folder, self.replay)
        self._saved: tuple[Any, ...] | None = None
        self.broken = False
        self.gaps = self.loads = 0

    def do(self, event: tuple[str, ...]) -> None:
        if event[0] in ("seal", "break_", "mend", "save", "load"):
            getattr(self, event[0])()
        else:
            self.go(event)

    def break_(self) -> None:
        """From now on nothing can be written: where the directory was, or would be made, there is a file."""
        if not self.broken:
            if self._folder.exists():
                self._folder.rename(self._root / "away")
            self._folder.touch()
            self.broken = True

    def mend(self) -> None:
        if self.broken:
            self._folder.unlink()
            if (self._root / "away").exists():
                (self._root / "away").rename(self._folder)
            self.broken = False

    def seal(self) -> bool:
        before = list(self._files._next)
        try:
            self._files.seal()
        except OSError:
            assert self.broken
            return False
        self.gaps += any(self.replay.oldest(env) > before[env] for env in range(len(self.envs)))
        return True

    def save(self) -> None:
        """A checkpoint, unless the disk fails; segments that it does not need are removed, as with keep = 1."""
        if self.seal():
            segments, tail = self._files.needed(), self._files.tail()
            self._saved = (segments, tail, copy.deepcopy(self.envs), self.steps, copy.deepcopy(self.replay))
            if not self.broken and self._folder.exists():
                names = {segment.name for segment in segments}
                for path in self._folder.iterdir():
                    if path.name not in names:
                        path.unlink()

    def load(self) -> None:
        """Back to the latest checkpoint, in a new memory."""
        if self._saved is None:
            return
        self.mend()
        segments, tail, envs, self.steps, expected = self._saved
        self.envs = copy.deepcopy(envs)
        shape, kind, num_envs, stack = self._shape
        self.replay = Replay(self.slots * num_envs, shape, kind, num_envs, stack, members=self.members)
        restore(self.replay, self._folder, segments, tail)
        for name, array in vars(expected).items():
            if name != "_flat":  # the same memory under another shape
                assert np.array_equal(getattr(self.replay, name), array), name
        self._files = ReplayFiles(self._folder, self.replay, segments)
        self.loads += 1


def live_and_compare(num_envs: int, stack: int, spare: int, history: list[tuple[str, ...]]) -> DurableWorld:
    """At every moment exactly the naive memory's transitions can be sampled, and they are equal to its."""
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as root:
        world = DurableWorld(num_envs, stack, stack + 2 + spare, Path(root))
        rng = np.random.default_rng(0)
        for event in [*history, ("mend",), ("save",), ("load",)]:
            world.do(event)
            expected = world.expected()
            assert len(world.replay) == len(expected)
            if expected:
                assert all(transition in expected for transition in keys(world.replay.sample(4, rng)))
        if expected:  # at most 54, so 2000 draws miss none
            found = {str(transition): transition for transition in keys(world.replay.sample(2000, rng))}
            assert sorted(found.values()) == sorted(expected)
    return world


steps = st.tuples(usual, usual, usual)
special = st.sampled_from([(name,) for name in ("restart", "seal", "seal", "save", "save", "load", "break_", "mend")])
histories = st.lists(st.one_of(*[steps] * 6, special), min_size=20, max_size=100)
worlds = given(num_envs=st.integers(1, 3), stack=st.sampled_from([0, 4]), spare=st.integers(0, 12), history=histories)


@settings(deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@worlds
def test_through_files_and_failures_the_memory_equals_the_naive_one(
    num_envs: int, stack: int, spare: int, history: list[tuple[str, ...]]
) -> None:
    live_and_compare(num_envs, stack, spare, history)


def laps(count: int) -> list[tuple[str, ...]]:
    """Three environments whose episodes last 3, 7 and 10 decisions."""
    return [tuple("truncated" if step % length == 0 else "go" for length in (3, 7, 10)) for step in range(1, count)]


@pytest.mark.parametrize("stack", [0, 4])
def test_a_disk_that_fails_for_longer_than_a_lap_leaves_a_gap_that_nobody_needs(stack: int) -> None:
    history = [*laps(25), ("save",), ("break_",)]
    for step in laps(45):
        history += [step, ("seal",), ("save",)]
    history += [("mend",), ("seal",), ("save",), ("load",), *laps(5), ("load",), *laps(60), ("save",), ("load",)]
    world = live_and_compare(3, stack, 12, history)
    assert world.gaps
    assert world.loads == 4


def test_every_cut_over_several_laps_is_restored() -> None:
    for stack in (0, 4):
        history: list[tuple[str, ...]] = [event for step in laps(90) for event in (step, ("save",), ("load",))]
        assert live_and_compare(3, stack, 8, history).loads == 90


# --- at length -----------------------------------------------------------------------------------------------


@pytest.mark.long
@settings(deadline=None, max_examples=1500, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@worlds
def test_many_histories_at_random(num_envs: int, stack: int, spare: int, history: list[tuple[str, ...]]) -> None:
    live_and_compare(num_envs, stack, spare, history)


def fill_a_million() -> dict[str, float]:
    """A real ring, every byte of it written; figures in bytes."""
    num_envs, length, wanted = 8, 500, 1_000_000
    capacity = wanted + 2 * wanted // length + 8 * num_envs  # an episode's last frame takes a slot of its own
    process = psutil.Process()
    before = process.memory_info().rss
    replay = Replay(capacity, (4, 84, 84), np.uint8, num_envs, stack=4)
    rng = np.random.default_rng(0)
    screens = rng.integers(1, 256, (64, num_envs, 4, 84, 84), np.uint8)
    replay.start(screens[0])
    false = np.zeros(num_envs, np.bool_)
    decision = 0
    while int(replay.written.min()) < replay.slots + 1000:  # until it has wrapped
        decision += 1
        screen = screens[decision % len(screens)]
        ended = np.full(num_envs, decision % length == 0)
        replay.add(rng.integers(18, size=num_envs), rng.normal(size=num_envs), screen, false, ended, screen)
    assert replay.frames.min() > 0
    del screens
    rss = process.memory_info().rss
    batch = replay.sample(32, rng)
    assert batch.obs.shape == (32, 4, 84, 84)
    return {"transitions": len(replay), "growth": rss - before, "resident": rss, "frames": capacity}


@pytest.mark.long
def test_a_million_atari_transitions_take_less_than_seven_and_a_half_gigabytes() -> None:
    if psutil.virtual_memory().available < 9e9:
        pytest.skip("fewer than 9 GB are free")
    figures = elsewhere(fill_a_million, timeout=1800)
    print(
        f"{figures['transitions']:,} transitions in {figures['frames']:,} frames: the process grew by "
        f"{figures['growth'] / 1e9:.3f} GB to {figures['resident'] / 1e9:.3f} GB"
    )
    assert figures["transitions"] >= 1_000_000
    assert figures["growth"] <= 7.5e9
    assert figures["growth"] == pytest.approx(figures["frames"] * bytes_per_frame((4, 84, 84), np.uint8, 4), rel=0.02)
