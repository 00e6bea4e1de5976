"""Decisions per second of training at steady state, compared with other libraries on the same workload."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import torch

import ours
import peers
from bdqn.envs import family
from measure import Spread, interleaved, ratio, write_rows
from work import OURS, REFERENCE, Contestant, Work

WORKS = [
    Work("ALE/Pong-v5", num_envs=1, features=512),
    Work("ALE/Pong-v5", num_envs=8, features=512),
    Work("CartPole-v1", num_envs=1),
    Work("CartPole-v1", num_envs=8),
    Work("MinAtar/Breakout-v1", num_envs=1),
    Work("MinAtar/Breakout-v1", num_envs=8),
]
TURN = {"atari": 160, "classic": 1_600, "minatar": 800}  # decisions: one to two seconds
THREADS = {"atari": torch.get_num_threads(), "classic": 1, "minatar": 1}  # as the command line sets them


def contestants(work: Work) -> dict[str, Contestant]:
    """All contestants for this workload."""
    found: dict[str, Contestant] = {
        REFERENCE: peers.sb3_dqn(work),
        "Tianshou Double DQN": peers.tianshou_dqn(work),
        "CleanRL-style DQN": peers.cleanrl_style_dqn(work),
    }
    for agent, name in (("dqn", "bdqn: DQN"), ("ddqn", OURS), ("bdqn", "bdqn: Bayesian DQN")):
        found[name] = ours.contestant(work, agent)
        # If bfloat16 is emulated or limited to older instructions, it is slower than float32 and not informative.
        if family(work.env_id) == "atari" and ours.bfloat16_is_faster():
            found[f"{name}, bfloat16"] = ours.contestant(work, agent, precision="bfloat16")
    return found


def two_contestants(work: Work) -> dict[str, Contestant]:
    """The contestants that the targets compare."""
    return {REFERENCE: peers.sb3_dqn(work), OURS: ours.contestant(work, "ddqn")}


def rates(
    work: Work, rounds: int, who: Callable[[Work], dict[str, Contestant]] = contestants
) -> dict[str, list[float]]:
    """Decisions per second of each contestant in each round."""
    torch.set_num_threads(THREADS[family(work.env_id)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs, and our SpreadWarning: agents learn little here
        runners = who(work)
        for take in runners.values():
            take(work.learning_starts + 8 * work.cycle - work.learning_starts % work.cycle)
        decisions = TURN[family(work.env_id)]
        turns: dict[str, Callable[[], object]] = {name: partial(take, decisions) for name, take in runners.items()}
        times = interleaved(turns, rounds)
    return {name: [decisions / second for second in values] for name, values in times.items()}


def run(rounds: int) -> None:
    rows = []
    for work in WORKS:
        print(f"{work.env_id}, {work.num_envs} environment(s)", flush=True)
        measured = rates(work, rounds)
        for name, values in measured.items():
            print(f"  {name:32} {Spread.of(values)!s:>28} /s   {ratio(values, measured[REFERENCE])} x", flush=True)
            rows += [
                {
                    "env": work.env_id,
                    "num_envs": work.num_envs,
                    "contestant": name,
                    "round": i,
                    "per_second": f"{v:.2f}",
                }
                for i, v in enumerate(values)
            ]
    write_rows("training", rows)
