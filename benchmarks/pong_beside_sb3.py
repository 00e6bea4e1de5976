"""Decisions per second on Pong, beside Stable-Baselines3's DQN: same game, network, batch and update rate, in turns.

Machines are noisy, so the contestants alternate and the figure to read is the median of the ratios. Ours is preset
`paper` with its whole memory of a million frames (allocated lazily), Double DQN and Bayesian DQN; learning only starts
sooner than in the preset. Stable-Baselines3 makes one forward pass fewer per update (DQN, not Double DQN).

    .venv/bin/python benchmarks/pong_beside_sb3.py
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import DummyVecEnv

import bdqn
from bdqn.envs import make_env

GAME = "ALE/Pong-v5"


def ours(agent: str) -> Callable[[int], object]:
    early = {"first_refit": "start"} if agent == "bdqn" else {}
    learner = bdqn.make(agent, GAME, preset="paper", learning_starts=500, **early)
    return learner.learn


def theirs() -> Callable[[int], object]:
    env = DummyVecEnv([lambda: make_env(GAME)])
    model = DQN("CnnPolicy", env, buffer_size=10_000, learning_starts=500, batch_size=32, train_freq=4)
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


def seconds(learn: Callable[[int], object], steps: int) -> float:
    start = time.perf_counter()
    learn(steps)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=400, help="decisions per turn")
    options = parser.parse_args()
    contestants = {"sb3 dqn": theirs(), "ours ddqn": ours("ddqn"), "ours bdqn": ours("bdqn")}
    for learn in contestants.values():
        learn(700)  # past the start of learning
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, learn in contestants.items():
            rates[name].append(options.steps / seconds(learn, options.steps))
    for name, values in rates.items():
        ratios = [ours / sb3 for ours, sb3 in zip(values, rates["sb3 dqn"], strict=True)]
        print(
            f"{name:10}  {statistics.median(values):6.1f} decisions/s ({min(values):.1f} to {max(values):.1f}), "
            f"{statistics.median(ratios):.2f} x sb3 ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
