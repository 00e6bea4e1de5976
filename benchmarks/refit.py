"""Time the refit of the posterior, compare it with its forward passes alone, and measure its growth."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch

import ours
from bdqn.config.observations import ObservationSpec
from bdqn.config.resolve import configure, recipe_named
from bdqn.qlearning.agent import QAgent
from measure import Spread, exponent, interleaved, ratio, seconds, write_rows
from training import THREADS, TURN
from work import Work

FRAMES = ObservationSpec((4, 84, 84), np.dtype(np.uint8), stack=4)
NUMBERS = ObservationSpec((8,), np.dtype(np.float32))
PASSES = 2  # over the B samples: their observations, and the successors (the two networks are equal after a copy)
B = 100_000  # as in the paper
GROWTH: dict[str, list[dict[str, int]]] = {
    "B": [{"batch": b, "features": 512, "actions": 6} for b in (2_000, 4_000, 8_000, 16_000, 32_000)],
    "d": [{"batch": 8_000, "features": d, "actions": 6} for d in (64, 128, 256, 512, 1024, 2048)],
    "actions": [{"batch": 8_000, "features": 512, "actions": n} for n in (2, 4, 6, 9, 18)],
}


def agent_with_memory(spec: ObservationSpec, batch: int, features: int, actions: int) -> QAgent:
    """A Bayesian agent with more than ``batch`` transitions of noise, just after a target update."""
    family = "atari" if spec.is_image else "classic"
    size = batch + batch // 10
    settings = {"posterior_batch_size": batch, "features": features, "buffer_size": size + 1, "learning_starts": size}
    configuration = configure("bdqn", family, "default", {**settings, "noise": "inverse-gamma", "reward_clip": 1.0})
    choices = recipe_named("bdqn").choices(configuration.agent_settings)
    agent = QAgent(spec, actions, choices, configuration.training)
    rng = np.random.default_rng(0)
    frame = spec.shape
    kinds = rng.integers(256, size=(97, *frame)).astype(spec.dtype)
    no = np.zeros(1, np.bool_)
    agent.start(kinds[:1])
    for i in range(size):
        obs = kinds[i % 97][None]
        agent.replay.add(rng.integers(actions, size=1), rng.normal(size=1), obs, no, no, obs)
    return agent


def fit(agent: QAgent) -> None:
    assert agent.choices.fit is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noise has almost no spread
        agent.fit_last_layer()


def forward_passes(agent: QAgent, batch: int, chunk: int = 64) -> None:
    """The lower limit: the network alone, on data in memory."""
    obs = torch.from_numpy(agent.replay.sample(chunk, np.random.default_rng(0)).obs)
    with torch.no_grad():
        for _ in range(PASSES * batch // chunk):
            agent.online.features(obs)


def floor(batch: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of a refit on Atari frames, and of its forward passes alone."""
    torch.set_num_threads(THREADS["atari"])
    agent = agent_with_memory(FRAMES, batch, features=512, actions=6)
    return interleaved({"refit": lambda: fit(agent), "forward": lambda: forward_passes(agent, batch)}, rounds)


def beside_ddqn(refit_seconds: list[float], rounds: int) -> list[float]:
    """Wall-clock time of 100,000 decisions of Bayesian DQN with one refit, relative to Double DQN, in each round."""
    work = Work("ALE/Pong-v5", features=512)
    turn = TURN["atari"]
    learners = {name: ours.learner(work, name) for name in ("ddqn", "bdqn")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for learner in learners.values():
            learner.learn(work.learning_starts + 64)
        times = interleaved({name: (lambda it=it: it.learn(turn)) for name, it in learners.items()}, rounds)
    refit_time = Spread.of(refit_seconds).median
    per_100k = {name: [s * 100_000 / turn for s in values] for name, values in times.items()}
    return [(b + refit_time) / d for b, d in zip(per_100k["bdqn"], per_100k["ddqn"], strict=True)]


def growth() -> list[dict[str, Any]]:
    """Seconds of a refit on flat observations, where the regression dominates the network; the best of three."""
    torch.set_num_threads(THREADS["classic"])
    rows = []
    for name, cases in GROWTH.items():
        for case in cases:
            agent = agent_with_memory(NUMBERS, case["batch"], case["features"], case["actions"])
            best = min(seconds(lambda agent=agent: fit(agent)) for _ in range(3))
            rows.append({"grows": name, **case, "seconds": f"{best:.4f}"})
        size = {"B": "batch", "d": "features", "actions": "actions"}[name]
        mine = [row for row in rows if row["grows"] == name]
        power = exponent([row[size] for row in mine], [float(row["seconds"]) for row in mine])
        print(
            f"  seconds grow with {name} to the power {power:.2f} (from {mine[len(mine) // 2][size]:,} on)", flush=True
        )
    return rows


def run(rounds: int) -> None:
    began = time.perf_counter()
    times = floor(B, min(rounds, 3))  # each takes about a minute
    print(
        f"  B = {B:,}: refit {Spread.of(times['refit'])} s, {ratio(times['refit'], times['forward'])} x {PASSES} passes"
    )
    ratios = beside_ddqn(times["refit"], rounds)
    print(f"  100,000 decisions with one refit: {Spread.of(ratios)} x Double DQN", flush=True)
    rows = [{"what": name, "round": i, "value": f"{v:.4f}"} for name, vs in times.items() for i, v in enumerate(vs)]
    rows += [{"what": "bdqn over ddqn", "round": i, "value": f"{v:.4f}"} for i, v in enumerate(ratios)]
    write_rows("refit", rows)
    write_rows("refit_growth", growth())
    print(f"  ({time.perf_counter() - began:.0f} s)")
