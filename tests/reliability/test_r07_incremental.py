"""A checkpoint costs what is new: replay is written once, and what no checkpoint needs any more is removed.

Bytes are counted where they leave the process (``wchar`` of /proc/self/io), so a file that is written and removed
again counts too, and compared with the sizes of the files that are there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

import bdqn
from bdqn.learner import Learner
from bdqn.replay.buffer import bytes_per_frame
from bdqn.runs.training import SEAL_FREQ
from bdqn.storage.checkpoints import Checkpoints
from support.forging import manifest_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what a process writes")
MB = 1 << 20
FRAME = bytes_per_frame((84, 84), np.uint8, 0)  # 7,067: an Atari screen and what is noted beside it


class Screens(gym.Env[np.ndarray, int]):
    """Episodes of 1,000 screens as large as Atari's. They are noise, which nothing can make smaller."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0, 255, (84, 84), np.uint8)
        self.action_space = gym.spaces.Discrete(4)
        self._pool = np.random.default_rng(0).integers(0, 256, (257, 84, 84), np.uint8)
        self._time = 0

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None):  # type: ignore[no-untyped-def]
        super().reset(seed=seed)
        return self._screen(), {}

    def step(self, action: int):  # type: ignore[no-untyped-def]
        return self._screen(), 1.0, False, self._time % 1_000 == 0, {}

    def get_env_state(self) -> dict[str, int]:
        return {"time": self._time}

    def set_env_state(self, state: dict[str, int]) -> None:
        self._time = state["time"]

    def _screen(self) -> np.ndarray:
        self._time += 1
        return self._pool[self._time % 257]


def network() -> torch.nn.Module:
    """Small, for the agent has to look at every screen although it acts at random."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(84 * 84, 2))


def random_agent(buffer_size: int, num_envs: int = 1) -> Learner:
    return bdqn.make("random", Screens, buffer_size=buffer_size, num_envs=num_envs, network=network())


def written_so_far() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class Cost:
    """Of one interval and the checkpoint at its end."""

    new: int  # bytes of frames
    written: int
    new_files: int  # bytes of files that were not there before
    seconds: float  # of saving itself
    on_disk: int


def train(learner: Learner, checkpoints: Checkpoints, interval: int, count: int) -> list[Cost]:
    """As ``bdqn train`` does: look at the replay memory now and then, save at every interval."""
    costs = []
    frames = int(learner.agent.replay.written.sum())
    for _ in range(count):
        before, written = files(checkpoints.folder), written_so_far()
        for step, _ in enumerate(learner.steps(interval), 1):
            if step % SEAL_FREQ == 0:
                checkpoints.write_segments(learner)
        start = time.perf_counter()
        checkpoints.save(learner)
        seconds = time.perf_counter() - start
        after = files(checkpoints.folder)
        new = int(learner.agent.replay.written.sum()) - frames
        frames += new
        fresh = sum(size for path, size in after.items() if path not in before)
        costs.append(Cost(new * FRAME, written_so_far() - written, fresh, seconds, sum(after.values())))
    return costs


def assert_only_what_is_needed_is_there(checkpoints: Checkpoints) -> None:
    needed = {segment["name"] for folder in checkpoints.paths() for segment in manifest_of(folder)["segments"]}
    assert {path.name for path in (checkpoints.folder / "replay").iterdir()} == needed


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_checkpoint_writes_new_frames_once_and_a_short_tail(tmp_path: Path, num_envs: int) -> None:
    ring, interval, keep = 1_200, 600, 2
    checkpoints = Checkpoints(tmp_path, keep=keep)
    costs = train(random_agent(ring, num_envs), checkpoints, interval, count=6)  # the ring wraps three times
    segment = ring // 4 * FRAME  # what may lie in the tail, and so be written again
    agent = 1 * MB
    for cost in costs:
        assert cost.new >= interval * FRAME
        assert cost.written <= 1.1 * cost.new + segment + agent
        assert cost.written >= cost.new_files >= 0.9 * (cost.new - segment)  # the measure itself works
        assert cost.on_disk <= 1.1 * (ring + (keep - 1) * interval) * FRAME + (keep + 1) * (segment + agent)
    assert_only_what_is_needed_is_there(checkpoints)


def test_a_checkpoint_soon_after_another_writes_next_to_nothing(tmp_path: Path) -> None:
    learner = random_agent(4_000)
    checkpoints = Checkpoints(tmp_path)
    train(learner, checkpoints, 4_000, count=1)
    (cost,) = train(learner, checkpoints, 40, count=1)
    assert cost.written <= 1.1 * 40 * FRAME + 1 * MB  # of a memory of 28 MB


def test_without_checkpoints_the_disk_holds_no_more_than_the_memory(tmp_path: Path) -> None:
    ring = 800
    learner, checkpoints = random_agent(ring), Checkpoints(tmp_path)
    most = 0
    for step, _ in enumerate(learner.steps(5 * ring), 1):
        if step % 100 == 0:
            checkpoints.write_segments(learner)
            most = max(most, sum(files(tmp_path).values()))
    assert 0.7 * ring * FRAME < most <= (ring + 2 * ring // 4) * FRAME


def test_segments_that_a_checkpoint_needs_stay_while_the_memory_moves_on(tmp_path: Path) -> None:
    ring = 800
    learner, checkpoints = random_agent(ring), Checkpoints(tmp_path, keep=1)
    for step, _ in enumerate(learner.steps(3 * ring), 1):
        if step == ring + 100:
            checkpoints.save(learner)
        checkpoints.write_segments(learner)
    restored = Checkpoints(tmp_path).load(Screens, network=network())
    there, expected = restored.learner.agent.replay, random_agent(ring).learn(ring + 100).agent.replay
    np.testing.assert_array_equal(there.frames, expected.frames)
    assert (there.written, len(there)) == (expected.written, len(expected))


@pytest.mark.long
def test_atari_sized_memory_at_a_cadence_of_100_000_decisions(tmp_path: Path) -> None:
    ring, interval, keep = 150_000, 100_000, 2
    checkpoints = Checkpoints(tmp_path, keep=keep)
    costs = train(random_agent(ring), checkpoints, interval, count=4)
    for number, cost in enumerate(costs, 1):
        print(
            f"checkpoint {number}: {cost.new / 1e6:,.1f} MB of new frames, {cost.written / 1e6:,.1f} MB written "
            f"({cost.written / cost.new:.3f} x), {cost.seconds:.2f} s to save, {cost.on_disk / 1e6:,.1f} MB on disk"
        )
        assert cost.written <= 1.1 * cost.new + 64 * MB
        assert cost.on_disk <= 1.1 * (ring + (keep - 1) * interval) * FRAME + 64 * MB
    assert_only_what_is_needed_is_there(checkpoints)
