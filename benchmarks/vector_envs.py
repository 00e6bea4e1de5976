"""Decisions per second of N environments with random actions: the own loop beside vector environments.

python benchmarks/vector_envs.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from bdqn.envs import Environments, make_atari, make_atari_vector, make_env
from bdqn.envs.gym_vector import VectorEnvironments

COUNTS = (1, 8, 32)
ROUNDS, SECONDS = 5, 1.0
SAME_STEP = AutoresetMode.SAME_STEP
Make = Callable[[int], Environments]


def cartpole() -> gym.Env[np.ndarray, int]:
    """One environment, without Gymnasium's checks, which cost time."""
    return make_env("CartPole-v1")


KINDS: dict[str, Make] = {
    "CartPole, own loop": lambda n: Environments([cartpole() for _ in range(n)], range(n)),
    "CartPole, SyncVectorEnv": lambda n: VectorEnvironments(
        SyncVectorEnv([cartpole] * n, autoreset_mode=SAME_STEP), range(n)
    ),
    "CartPole, AsyncVectorEnv": lambda n: VectorEnvironments(
        AsyncVectorEnv([cartpole] * n, autoreset_mode=SAME_STEP), range(n)
    ),
    "Pong, own loop": lambda n: Environments([make_atari("pong") for _ in range(n)], range(n)),
    "Pong, ale-py's": lambda n: VectorEnvironments(make_atari_vector("pong", n), range(n)),
}


def decisions_per_second(envs: Environments) -> float:
    """Over about a second."""
    rng, taken, began = np.random.default_rng(0), 0, time.perf_counter()
    while time.perf_counter() < began + SECONDS:
        envs.step(rng.integers(envs.action_space.n, size=envs.num_envs))
        taken += envs.num_envs
    return taken / (time.perf_counter() - began)


def main() -> None:
    """Print the median of interleaved rounds."""
    print(f"{'':26}" + "".join(f"{count:>12}" for count in COUNTS))
    rates: dict[tuple[str, int], list[float]] = {(kind, count): [] for kind in KINDS for count in COUNTS}
    made = {key: KINDS[key[0]](key[1]) for key in rates}
    for _ in range(ROUNDS):
        for key, envs in made.items():
            rates[key].append(decisions_per_second(envs))
    for envs in made.values():
        envs.close()
    for kind in KINDS:
        print(f"{kind:26}" + "".join(f"{median(rates[kind, count]):>12,.0f}" for count in COUNTS), flush=True)


if __name__ == "__main__":
    main()
