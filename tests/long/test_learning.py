"""Learning with the default preset, several seeds each, as a user would run it. Runs are kept in out/learning/.

Together about an hour on two cores: make test-long
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bdqn.report.load import Run, read_run

pytestmark = pytest.mark.long

OUT = Path("out/learning")


def bdqn_command(*words: object) -> str:
    line = [sys.executable, "-m", "bdqn", *map(str, words)]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def train(env: str, agents: list[str], seeds: int, steps: int) -> dict[str, list[Run]]:
    """Runs of every agent and seed, one per core at a time; an earlier program's runs are replaced."""

    def one(job: tuple[str, int]) -> Run:
        agent, seed = job
        folder = OUT / env.replace("/", "-") / f"{agent}-{steps}-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        bdqn_command(
            "train", "--agent", agent, "--env", env, "--steps", steps, "--seed", seed, "--out", folder, "--quiet"
        )
        return read_run(folder)

    jobs = list(product(agents, range(seeds)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = dict(zip(jobs, pool.map(one, jobs), strict=True))
    return {agent: [runs[agent, seed] for seed in range(seeds)] for agent in agents}


def best_mean(run: Run, window: int = 100) -> float:
    """The highest mean return of ``window`` consecutive episodes."""
    return float(np.convolve(run.raw_return, np.full(window, 1 / window), mode="valid").max())


def greedy(run: Run) -> float:
    """Mean return of 20 episodes under the posterior mean."""
    return float(json.loads(bdqn_command("evaluate", run.path, "--episodes", "20", "--json"))["mean_reward"])


def test_cartpole_is_solved() -> None:
    runs = train("CartPole-v1", ["bdqn"], seeds=5, steps=150_000)["bdqn"]
    best = [best_mean(run) for run in runs]
    print("CartPole-v1, best mean of 100 episodes:", best)
    assert sum(value >= 475 for value in best) >= 4, best


def test_mountain_car_is_climbed() -> None:
    runs = train("MountainCar-v0", ["bdqn", "ddqn"], seeds=5, steps=100_000)
    scores = {agent: [greedy(run) for run in seeds] for agent, seeds in runs.items()}
    print("MountainCar-v0, greedy return:", scores)
    assert sum(value > -150 for value in scores["bdqn"]) >= 4, scores


def test_minatar_breakout_is_learned_by_both() -> None:
    runs = train("MinAtar/Breakout-v1", ["bdqn", "ddqn"], seeds=3, steps=100_000)
    last = {agent: [float(run.raw_return[-100:].mean()) for run in seeds] for agent, seeds in runs.items()}
    print("MinAtar/Breakout-v1, mean of the last 100 episodes:", last)
    for agent, values in last.items():
        assert np.mean(values) > 2.0, (agent, values)  # a random agent gets 0.5
