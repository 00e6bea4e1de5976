"""Profile a decision: the time of each part of the training loop, and the speed of the arithmetic."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import ours
from bdqn.envs import family
from bdqn.learner import Learner
from measure import seconds, write_rows
from training import THREADS, TURN, WORKS
from work import Work

PARTS = ("act", "environment", "store", "sample", "targets", "loss", "backward", "step")  # loss without its targets
NATURE_FLOP = 2 * (
    400 * 32 * 256 + 81 * 64 * 512 + 49 * 64 * 576 + 3136 * 512
)  # of one forward pass of one observation


def clocked(learner: Learner, decisions: int) -> dict[str, float]:
    """Microseconds per decision, of each part and in total."""
    spent = dict.fromkeys(PARTS, 0.0)
    agent = learner.agent
    places: list[tuple[Any, str, str]] = [
        *((agent, "act", "act"), (learner.envs, "step", "environment"), (agent.replay, "add", "store")),
        *((agent.replay, "sample", "sample"), (agent, "td_target", "targets"), (agent, "loss", "loss")),
        *((agent.optimizer, "step", "step"), (torch.Tensor, "backward", "backward")),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in places]

    def timed(function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                spent[part] += time.perf_counter() - start

        return call

    for (owner, name, part), (_, _, function) in zip(places, originals, strict=True):
        setattr(owner, name, timed(function, part))
    try:
        whole = seconds(lambda: learner.learn(decisions))
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)
    spent["loss"] -= spent["targets"]
    spent["everything else"] = whole - sum(spent.values())
    return {part: 1e6 * value / decisions for part, value in {**spent, "whole": whole}.items()}


def arithmetic() -> list[dict[str, str]]:
    """GFLOP/s of a matrix product, and of the Atari network on 32 observations; a backward pass counts as two."""
    rows = []
    trained = ours.learner(Work("ALE/Pong-v5", features=512), "ddqn")
    obs = torch.randint(0, 256, (32, 4, 84, 84), dtype=torch.uint8)
    matrix = torch.randn(1024, 1024)
    flop = 32 * NATURE_FLOP

    def forward() -> None:
        with torch.no_grad():
            trained.agent.online.features(obs)

    def both() -> None:
        trained.agent.optimizer.clear()
        trained.agent.online.features(obs).sum().backward()  # type: ignore[no-untyped-call]

    jobs = (
        ("matrix product", lambda: matrix @ matrix, 2 * 1024**3),
        ("forward", forward, flop),
        ("both", both, 3 * flop),
    )
    for threads in dict.fromkeys((1, THREADS["atari"])):
        torch.set_num_threads(threads)
        for name, job, work in jobs:
            job()
            rows.append(
                {"threads": str(threads), "what": name, "gflops": f"{work / min(map(seconds, [job] * 20)) / 1e9:.0f}"}
            )
    return rows


def run(rounds: int) -> None:
    """Measure each workload once: there are no contestants to interleave."""
    rows = []
    for work in (work for work in WORKS if work.num_envs == 1):
        torch.set_num_threads(THREADS[family(work.env_id)])
        learner = ours.learner(work, "ddqn")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner.learn(work.learning_starts + 64)
            spent = clocked(learner, rounds * TURN[family(work.env_id)])
        print(f"{work.env_id}: " + ", ".join(f"{part} {value:,.0f}" for part, value in spent.items()), flush=True)
        rows.append({"env": work.env_id, **{part: f"{value:.1f}" for part, value in spent.items()}})
    write_rows("clock", rows)
    write_rows("arithmetic", arithmetic())
