"""A replay memory of packed frames holds the same, in less memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bdqn
from bdqn.config.settings import SettingError
from bdqn.learner import Learner
from bdqn.replay.buffer import Replay
from bdqn.replay.compression import PackedFrames
from bdqn.storage.checkpoints import Checkpoints
from support.fingerprints import fingerprint


def learner(env: str = "ALE/Pong-v5", *, packed: bool, **settings: Any) -> Learner:
    common = {"learning_starts": 60, "buffer_size": 120, "batch_size": 8, "features": 16}
    return bdqn.make("ddqn", env, seed=3, pack_frames=packed, **{**common, **settings})


@pytest.mark.parametrize(("env", "num_envs"), [("ALE/Pong-v5", 1), ("ALE/Pong-v5", 2), ("CartPole-v1", 3)])
def test_training_is_the_same_to_the_last_bit(env: str, num_envs: int) -> None:
    """Over rings that wrap."""
    plain, packed = (learner(env, packed=flag, num_envs=num_envs).learn(240) for flag in (False, True))
    ours, theirs = plain.agent.online.state_dict(), packed.agent.online.state_dict()
    assert plain.agent.updates > 20
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for env_number in range(num_envs):
        start, stop = plain.agent.replay.oldest(env_number), int(plain.agent.replay.written[env_number])
        records = (one.agent.replay.records(env_number, start, stop) for one in (plain, packed))
        for a, b in zip(*(record.values() for record in records), strict=True):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)


def test_a_checkpoint_is_the_same_and_goes_on(tmp_path: Path) -> None:
    straight = learner(packed=True).learn(200)
    first = learner(packed=True).learn(130)
    Checkpoints(tmp_path).save(first)
    resumed = Checkpoints(tmp_path).load().learner
    assert isinstance(resumed.agent.replay.frames, PackedFrames)
    resumed.learn(70)
    assert fingerprint(resumed) == fingerprint(straight)


def test_screens_of_games_take_a_fraction() -> None:
    frames = learner(packed=True, learning_starts=10**6).learn(119).agent.replay.frames
    assert isinstance(frames, PackedFrames)
    assert 10 * frames.nbytes < 120 * 84 * 84


def test_more_frames_are_taken_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bdqn.qlearning.memory.free_memory", lambda: 50_000_000)
    with pytest.raises(SettingError, match="set buffer_size to at most"):
        bdqn.make("ddqn", "ALE/Pong-v5", buffer_size=20_000, features=16)
    bdqn.make("ddqn", "ALE/Pong-v5", buffer_size=20_000, features=16, pack_frames=True)


def test_noise_is_kept_too() -> None:
    """Frames that cannot be packed take a little more than their size, and are what they were."""
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(5, 84, 84), dtype=np.uint8)
    packed = PackedFrames((2, 5, 84, 84), np.uint8)
    packed[1, np.arange(5)] = frames
    packed[0, 3] = frames[0]
    assert np.array_equal(packed[1, np.array([4, 0])], frames[[4, 0]])
    assert np.array_equal(packed.take(np.array([[3, 5], [9, 0]])), [[frames[0], frames[0]], [frames[4], 0 * frames[0]]])


def test_it_is_off_unless_asked_for() -> None:
    assert isinstance(Replay(10, (2,), np.float32).frames, np.ndarray)
