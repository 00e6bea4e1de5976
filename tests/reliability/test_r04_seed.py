"""One seed gives one run: processes agree on every byte, step for step, and another seed gives another run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

import bdqn
from support.fingerprints import digest, fingerprint
from support.processes import elsewhere

SMALL = {
    "learning_starts": 200,
    "batch_size": 16,
    "train_freq": 8,
    "buffer_size": 900,  # so that the ring is full long before the end
    "features": 16,
    "target_update_interval": 150,
    "posterior_update_interval": 150,
    "posterior_batch_size": 400,
}


def train(
    folder: str, env: str, seed: int, steps: int, every: int, num_envs: int, threads: int, settings: dict[str, Any]
) -> list[str]:
    """Hashes of everything that a learner holds, every so many decisions, and of its checkpoint's files."""
    torch.set_num_threads(threads)
    learner = bdqn.make("bdqn", env, seed=seed, num_envs=num_envs, **settings)
    hashes = []
    while learner.num_timesteps < steps:
        learner.learn(every)
        hashes.append(digest(fingerprint(learner)))
    bdqn.Checkpoints(folder).save(learner)
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return hashes + [f"{path.relative_to(folder)} {sha256(path.read_bytes()).hexdigest()}" for path in files]


def differently(number: int, *arguments: Any) -> list[str]:
    """The same in a new process, whose sets are ordered otherwise."""
    return [str(line) for line in elsewhere(train, *arguments, timeout=3600, PYTHONHASHSEED=str(number))]


def compare(first: list[str], second: list[str], other: list[str], hashes: int) -> None:
    """Two runs are equal from the first hash to the last file; another seed's differs at once."""
    assert len(first) > hashes + 4
    assert len(set(first)) == len(first)  # it moved
    assert first == second
    assert not set(first[:hashes]) & set(other[:hashes])


def test_two_processes_agree_on_every_byte_and_another_seed_differs(tmp_path: Path) -> None:
    rest = (1_500, 250, 1, 1, SMALL)
    with ThreadPoolExecutor() as pool:
        there = pool.submit(differently, 1, tmp_path / "there", "CartPole-v1", 0, *rest)
        here = train(str(tmp_path / "here"), "CartPole-v1", 0, *rest)
    other = train(str(tmp_path / "other"), "CartPole-v1", 1, 500, *rest[1:])
    compare(here, there.result(), other, 6)


def compare_processes(tmp_path: Path, hashes: int, *arguments: Any) -> None:
    """Three new processes, two of them with the same seed."""
    env, *rest = arguments
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(differently, i, tmp_path / str(i), env, seed, *rest) for i, seed in enumerate((0, 0, 1))]
    compare(*(run.result() for run in runs), hashes)
    print(f"{env}: {hashes} hashes over {rest[0]:,} decisions and all files are equal; another seed's differ")


@pytest.mark.long
@pytest.mark.parametrize(
    ("env", "num_envs", "settings"),
    [("CartPole-v1", 1, {}), ("MinAtar/Breakout-v1", 3, {"buffer_size": 20_000})],
)
def test_processes_agree_over_fifty_thousand_decisions(
    tmp_path: Path, env: str, num_envs: int, settings: dict[str, Any]
) -> None:
    every = 1_000 if num_envs == 1 else 1_002  # a multiple of the environments
    compare_processes(tmp_path, 50, env, 50 * every, every, num_envs, 1, settings)


@pytest.mark.long
def test_processes_agree_on_an_atari_game_with_several_threads(tmp_path: Path) -> None:
    pytest.importorskip("ale_py", reason="the atari extra is not installed")
    settings = {**SMALL, "features": 64, "protocol": "machado"}
    compare_processes(tmp_path, 6, "ALE/Breakout-v5", 3_000, 500, 1, 2, settings)
