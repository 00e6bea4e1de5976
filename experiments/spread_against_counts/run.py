"""Train agents on the same decisions, and measure how much their draws of Q differ where there are few data or many.

python experiments/spread_against_counts/run.py --scale quick
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

import bdqn
from bdqn.report.studies import Row, Scale, Study, Table, main

OUT = Path("out/spread_against_counts")
FULL = Scale("full", seeds=8, instances=200, episodes={"spread": 4_000})
SCALES = (FULL, FULL.quick())

AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dropout": ("dropout", {}),
    "noisy": ("noisy", {}),
    "bbq": ("bbq", {}),
    "bbq, from its prior": ("bbq", {"sigma0": 1.0, "learning_rate": 5e-3}),  # whose scales have time to move
    "bootstrapped": ("bootstrapped", {}),
    "bootstrapped, priors": ("bootstrapped", {"prior_scale": 3.0}),
    "bdqn": ("bdqn", {}),
    "bdqn-deep": ("bdqn-deep", {}),
}
CONTEXTS, NEVER, ACTIONS = 40, 4, 2  # the last four contexts are never met
RARE_ACTION = 0.1


class Contexts(gym.Env[int, int]):
    """One decision per episode. Context k has a probability proportional to (k + 1)^-2; rewards have noise of 1."""

    observation_space, action_space = spaces.Discrete(CONTEXTS), spaces.Discrete(ACTIONS)
    means = np.random.default_rng(0).uniform(-1, 1, (CONTEXTS, ACTIONS))
    shares = np.arange(1.0, CONTEXTS - NEVER + 1) ** -2

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.context = int(self.np_random.choice(len(self.shares), p=self.shares / self.shares.sum()))
        return self.context, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        reward = self.means[self.context, action] + self.np_random.normal()
        return self.context, float(reward), True, False, {}


def trained(agent: str, settings: dict[str, Any], seed: int, decisions: int) -> tuple[bdqn.Learner, NDArray[np.int64]]:
    """An agent that has learned from a policy that is the same for all, and how often that met each pair."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((CONTEXTS, ACTIONS), np.int64)

    def policy(context: NDArray[np.int64]) -> NDArray[np.int64]:
        action = (rng.random(len(context)) < RARE_ACTION).astype(np.int64)
        counts[context, action] += 1
        return action

    starts = min(200, decisions // 2)
    learner = bdqn.make(agent, Contexts, seed=seed, threads=1, learning_starts=starts, **settings)
    return learner.learn(decisions, policy=policy), counts


@torch.no_grad()
def spread(learner: bdqn.Learner, draws: int) -> NDArray[np.float64]:
    """Standard deviation of Q over draws to act by, in the unit of rewards (contexts, actions)."""
    agent, every = learner.agent, np.arange(CONTEXTS)
    indices = agent.online.head.draw(np.random.default_rng(0), draws)
    assert indices is not None
    return learner.reward_unit * np.std([agent.view(every, index).draw for index in indices], axis=0, dtype=np.float64)


def spread_and_counts(scale: Scale) -> Table:
    """Every context and action of every agent and seed."""
    columns = ("agent", "seed", "context", "action", "count", "spread")

    def rows() -> Iterator[Row]:
        for name, (agent, settings) in AGENTS.items():
            for seed in range(scale.seeds):
                learner, counts = trained(agent, settings, seed, scale.episodes["spread"])
                values = spread(learner, scale.instances)
                for (context, action), value in np.ndenumerate(values):
                    yield name, seed, context, action, int(counts[context, action]), float(value)

    return columns, rows()


STUDIES: dict[str, Study] = {"spread": spread_and_counts}

if __name__ == "__main__":
    main(STUDIES, SCALES, OUT)
