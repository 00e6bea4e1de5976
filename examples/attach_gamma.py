"""How far a network's own values tell the discount that it was trained with: SB3 agents, at three stages of training.

For each agent, the two estimates of gamma, and which discounts `bdqn.attach` would doubt. Needs the dev extra.

    python examples/attach_gamma.py
"""

from __future__ import annotations

import numpy as np
import torch
from stable_baselines3 import DQN

from bdqn.attached.agents import q_source
from bdqn.attached.discount import contradiction, estimates
from bdqn.attached.sources import transitions_of

ENVS = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")
GAMMAS = (0.9, 0.95, 0.99)
STAGES = (3_000, 10_000, 25_000)
ASKED = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


def main() -> None:
    torch.set_num_threads(1)
    print("| environment | trained with | decisions | through the origin | with a constant | doubted |")
    print("|---|---|---|---|---|---|")
    for env in ENVS:
        for gamma in GAMMAS:
            model = DQN("MlpPolicy", env, gamma=gamma, seed=0, learning_rate=1e-3, learning_starts=1_000)
            model.target_update_interval = 500
            for before, stage in zip((0, *STAGES), STAGES, strict=False):
                model.learn(stage - before, reset_num_timesteps=False)
                print(f"| {env} | {gamma} | {stage:,} | {_row(model)} |", flush=True)


def _row(model: DQN) -> str:
    source = q_source(model)
    data = transitions_of(None, source, samples=0, epsilon=0.0, rng=np.random.default_rng(0))
    network = source.network(data.obs[:2])
    q, v_next = network.rows(data.obs)[1], network.rows(data.next_obs)[1].max(1)
    explained = q[np.arange(len(data)), data.action] - data.reward
    found = estimates(explained[~data.terminal], v_next[~data.terminal])
    doubted = [str(gamma) for gamma in ASKED if contradiction(gamma, explained, v_next, ~data.terminal)]
    numbers = " | ".join(f"{number:.3f}" for number in found) if found else "- | -"
    return f"{numbers} | {', '.join(doubted) or 'none'}"


if __name__ == "__main__":
    main()
