"""Processor time per decision of some agents, interleaved, and as a ratio to the first:

python benchmarks/cost.py --env CartPole-v1 --after 4000 --decisions 6000 --agents bdqn bdqn-explore

Settings follow an agent's name: ddqn,precision=bfloat16
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import suppress
from typing import Any

import torch

import bdqn

TURNS = 10


def contestant(text: str) -> tuple[str, dict[str, Any]]:
    """An agent and its settings."""
    agent, *pairs = text.split(",")
    settings: dict[str, Any] = dict(pair.split("=", 1) for pair in pairs)
    for name, value in settings.items():
        with suppress(json.JSONDecodeError):  # a word stays one
            settings[name] = json.loads(value)
    return agent, settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--agents", nargs="+", default=["bdqn", "bdqn-explore"])
    parser.add_argument("--after", type=int, default=4_000, help="decisions before the measurement [%(default)s]")
    parser.add_argument("--decisions", type=int, default=6_000, help="decisions to measure [%(default)s]")
    options = parser.parse_args()
    torch.set_num_threads(1)
    learners = {}
    for text in options.agents:
        agent, settings = contestant(text)
        learners[text] = bdqn.make(agent, options.env, seed=0, threads=1, **settings).learn(options.after)
    spent = dict.fromkeys(learners, 0.0)
    for _ in range(TURNS):
        for agent, learner in learners.items():
            start = time.process_time()
            learner.learn(options.decisions // TURNS)
            spent[agent] += time.process_time() - start
    first = spent[options.agents[0]]
    for agent, seconds in spent.items():
        print(f"{agent}: {1e3 * seconds / options.decisions:.2f} ms per decision, ratio {seconds / first:.2f}")


if __name__ == "__main__":
    main()
