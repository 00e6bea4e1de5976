"""What a density model costs for each observation, in milliseconds of one core; and how much it keeps.

Then what a decision costs in training, with updates, for agents with and without one.

python benchmarks/density.py [--env ALE/Pong-v5] [--observations 3000] [--decisions 600]
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import bdqn
from bdqn.density.counts import exact_counts, hashed_counts
from bdqn.density.cts import context_trees
from bdqn.density.pseudo_counts import MakeDensityModel

MODELS: dict[str, MakeDensityModel] = {
    "exact counts": exact_counts,
    "SimHash, 64 bits": partial(hashed_counts, bits=64),
    "SimHash, 256 bits": partial(hashed_counts, bits=256),
    "CTS": context_trees,
}


AGENTS = ("ddqn", "dqn-counts", "dqn-cts")


def training(env: str, decisions: int) -> None:
    for agent in AGENTS:
        learner = bdqn.make(agent, env, seed=0, learning_starts=200, buffer_size=20_000, threads=1).learn(300)
        start = time.process_time()
        learner.learn(decisions)
        milliseconds = 1e3 * (time.process_time() - start) / decisions
        print(f"{agent}: {milliseconds:.2f} ms per decision", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--env", default="ALE/Pong-v5")
    parser.add_argument("--observations", type=int, default=3_000)
    parser.add_argument("--decisions", type=int, default=600)
    arguments = parser.parse_args()
    learner = bdqn.make("random", arguments.env, seed=0, buffer_size=1_000, threads=1)
    seen: list[np.ndarray] = []
    learner.learn(arguments.observations, lambda _, step: seen.append(step.next_obs[0].copy()))
    for name, make in MODELS.items():
        model = make(learner.agent.spec, np.random.default_rng(0))
        start = time.process_time()
        for obs in seen:
            model.prob_then_update(obs)
        milliseconds = 1e3 * (time.process_time() - start) / len(seen)
        megabytes = sum(array.nbytes for array in model.state().values()) / 1e6
        print(f"{name}: {milliseconds:.3f} ms per observation, {model.size:,} entries, {megabytes:.1f} MB", flush=True)
    training(arguments.env, arguments.decisions)


if __name__ == "__main__":
    main()
