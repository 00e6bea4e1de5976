"""The replay buffer: the memory of a million Atari transitions, and the time of a sample."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil

import ours
from bdqn.config.memory import free_memory
from bdqn.replay.buffer import Replay
from bdqn.replay.compression import PackedFrames
from measure import Spread, interleaved, ratio, write_rows
from work import Work

FRAMES = 1_000_000


def fill(frames: int) -> None:
    """Print by how many bytes this process grew, and the number of transitions; runs in its own process."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(256, size=(97, 1, 4, 84, 84)).astype(np.uint8)
    no, action, reward = np.zeros(1, np.bool_), np.zeros(1, np.int64), np.zeros(1)
    process = psutil.Process()
    before = process.memory_info().rss
    memory = Replay(frames, (4, 84, 84), np.uint8, stack=4)
    memory.start(kinds[0])
    for i in range(frames - 1):
        obs = kinds[i % 97]
        memory.add(action, reward, obs, no, no, obs)
    print(process.memory_info().rss - before, len(memory))


def run(rounds: int) -> None:
    frames = FRAMES if free_memory() > 9e9 else 100_000
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {here!r}); import replay; replay.fill({frames})"]
    size, transitions = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    work = Work("ALE/Pong-v5", features=512)
    learner = ours.learner(work, "ddqn")
    learner.learn(work.learning_starts + 64)
    agent = learner.agent
    rng = np.random.default_rng(0)
    times = interleaved(
        {
            "sample": lambda: [agent.replay.sample(work.batch_size, rng) for _ in range(50)],
            "update": lambda: [agent.update() for _ in range(10)],
        },
        rounds,
    )
    sample, update = Spread.of([s / 50 for s in times["sample"]]), Spread.of([s / 10 for s in times["update"]])
    packed = ours.learner(work, "ddqn", pack_frames=True)
    packed.learn(work.learning_starts + 64)
    frames_packed = packed.agent.replay.frames
    assert isinstance(frames_packed, PackedFrames)
    held = int(packed.agent.replay.written.sum())
    turn = 160
    turns = interleaved({"plain": lambda: learner.learn(turn), "packed": lambda: packed.learn(turn)}, rounds)
    rows = [
        {"figure": "frames", "value": f"{frames}"},
        {"figure": "transitions", "value": f"{transitions}"},
        {"figure": "resident bytes", "value": f"{size}"},
        {"figure": "sample of 32, ms", "value": f"{1e3 * sample.median:.3f}"},
        {"figure": "update, ms", "value": f"{1e3 * update.median:.3f}"},
        {"figure": "packed: bytes per frame of Pong", "value": f"{frames_packed.nbytes / held:.0f}"},
        {"figure": "packed: time of training", "value": f"{ratio(turns['packed'], turns['plain']).median:.3f}"},
    ]
    for row in rows:
        print(f"  {row['figure']}: {row['value']}")
    write_rows("replay", rows)
