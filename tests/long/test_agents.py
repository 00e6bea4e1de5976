"""Every agent learns CartPole with the same training settings: a mean return of 400 within 150,000 decisions.

At most five seeds each, and no more than it takes to tell; about an hour on two cores.
"""

from __future__ import annotations

from collections import deque

import pytest
import torch

import bdqn
from bdqn.agents import AGENTS

pytestmark = pytest.mark.long

STEPS, GOAL, EPISODES, SEEDS, ENOUGH = 150_000, 400.0, 100, 5, 3
TRAINING = {"learning_rate": 5e-4, "gamma": 0.99, "batch_size": 128, "train_freq": 4, "n_steps": 5}
TRAINING |= {"target_update_interval": 500}
# The paper reports that dropout fails: it is run by hand, and stated as found.
LEARNERS = [name for name in AGENTS if name not in ("random", "dropout")]


def decisions_to_goal(agent: str, seed: int) -> int | None:
    """When the mean of its last hundred episodes, as it explores, first reached the goal."""
    learner = bdqn.make(agent, "CartPole-v1", seed=seed, **TRAINING)
    returns: deque[float] = deque(maxlen=EPISODES)
    total = 0.0
    for step in learner.steps(STEPS):
        total += float(step.reward[0])
        if step.ended[0]:
            returns.append(total)
            total = 0.0
            if len(returns) == EPISODES and sum(returns) >= GOAL * EPISODES:
                return learner.num_timesteps
    return None


@pytest.mark.parametrize("agent", LEARNERS)
def test_it_learns_cartpole_on_most_seeds(agent: str) -> None:
    torch.set_num_threads(1)
    reached: list[int | None] = []
    for seed in range(SEEDS):
        reached.append(decisions_to_goal(agent, seed))
        print(f"{agent}, seed {seed}: {reached[-1]}", flush=True)
        if sum(r is not None for r in reached) == ENOUGH or reached.count(None) > SEEDS - ENOUGH:
            break
    assert sum(r is not None for r in reached) >= ENOUGH, reached
