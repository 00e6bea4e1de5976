"""Memory does not grow: not while a run goes on once its replay memory is full, and not from one run to the next."""

from __future__ import annotations

import ctypes
import gc
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

import bdqn
from bdqn.cli import main
from bdqn.runs.progress import progress
from bdqn.runs.schedule import Schedule
from bdqn.runs.training import train
from bdqn.runs.writer import RunWriter
from support.processes import elsewhere

SMALL: dict[str, Any] = {"learning_starts": 200, "buffer_size": 600, "features": 16, "batch_size": 16}
REFITS = {"target_update_interval": 100, "posterior_update_interval": 100, "posterior_batch_size": 400}


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def living() -> int:
    gc.collect()
    return len(gc.get_objects())


def trimmed() -> int:
    """Resident bytes when the allocator has given back what it keeps for later, where it can be asked to."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return resident()


def watched(
    folder: str,
    agent: str,
    env: str,
    steps: int,
    every: int,
    settings: dict[str, Any],
    *,
    objects: bool = False,
    measure: Callable[[], int] = resident,
) -> list[tuple[int, int, int]]:
    """A recorded run, with checkpoints; its decisions, resident bytes and (where asked for) living objects."""
    torch.set_num_threads(1)
    learner = bdqn.make(agent, env, **{**SMALL, **settings})
    schedule = Schedule(log_freq=200, save_freq=500)
    Path(folder).mkdir()
    writer = RunWriter(Path(folder), learner, steps, schedule)
    seen: list[tuple[int, int, int]] = []

    def look() -> bool:
        now = learner.num_timesteps
        if now % every == 0 and (not seen or seen[-1][0] != now):
            seen.append((now, measure(), living() if objects else 0))
        return False

    with writer, progress(steps, quiet=True) as display:
        train(learner, steps, writer, bdqn.Checkpoints(Path(folder) / "checkpoints"), schedule, display, look)
    return seen


def train_repeatedly(folder: str, times: int) -> list[int]:
    """``bdqn train`` again and again in this process; resident bytes after each."""
    flags = ["--learning-starts", "100", "--buffer-size", "1000", "--features", "32", "--quiet"]
    flags += ["--posterior-update-interval", "100", "--posterior-batch-size", "300"]
    after = []
    for seed in range(times):
        out = ["--seed", str(seed), "--out", f"{folder}/{seed}"]
        assert main(["train", "--env", "CartPole-v1", "--steps", "400", *flags, *out]) == 0
        gc.collect()
        after.append(resident())
    return after


def test_no_object_outlives_its_step_once_the_ring_is_full(tmp_path: Path) -> None:
    seen = watched(str(tmp_path / "run"), "bdqn", "CartPole-v1", 2_000, 1_000, REFITS, objects=True)
    (step, before, objects), (_, after, objects_after) = seen[-2:]  # 1,000 decisions, 10 refits, 2 checkpoints
    assert step == 1_000
    assert objects_after - objects < 200
    assert after - before < 3e6


def test_trainings_in_one_process_leave_nothing_behind(tmp_path: Path) -> None:
    after = train_repeatedly(str(tmp_path), 5)
    assert after[-1] < 1.02 * after[1]


# --- at length -----------------------------------------------------------------------------------------------


def long_run(agent: str, env: str, steps: int, settings: dict[str, Any], trim: bool) -> list[tuple[int, int, int]]:
    measure = trimmed if trim else resident
    with tempfile.TemporaryDirectory() as folder:
        return watched(f"{folder}/run", agent, env, steps, 500, settings, measure=measure)


@pytest.mark.long
@pytest.mark.parametrize(
    ("agent", "env", "steps", "settings", "trim"),
    [
        ("bdqn", "CartPole-v1", 250_000, REFITS, False),
        # Megabytes are written every few hundred decisions here: the heap breathes by more than what is looked for.
        ("random", "ALE/Breakout-v5", 60_000, {}, True),
    ],
)
def test_resident_memory_has_no_slope(agent: str, env: str, steps: int, settings: dict[str, Any], trim: bool) -> None:
    seen = np.array(elsewhere(long_run, agent, env, steps, settings, trim, timeout=3600))
    step, rss, _ = seen[seen[:, 0] >= steps // 5].T  # the ring was full long before
    slope = np.polyfit(step, rss, 1)[0] * 100_000 / 1e6
    print(f"{agent} on {env}: {slope:+.2f} MB per 100,000 decisions, from {rss[0] / 1e6:.1f} to {rss[-1] / 1e6:.1f} MB")
    assert slope < 1.0


def twenty_trainings() -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        return train_repeatedly(folder, 20)


@pytest.mark.long
def test_twenty_trainings_in_one_process_grow_by_less_than_two_percent() -> None:
    after = elsewhere(twenty_trainings)
    print(f"resident after 1, 2, 10 and 20 trainings: {[round(after[i] / 1e6, 1) for i in (0, 1, 9, 19)]} MB")
    assert after[-1] < 1.02 * after[0]
