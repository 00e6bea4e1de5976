"""What draws do on Pong, where every move of the paddle has two actions: python experiments/atari/draws.py RUN

Plays as in training. A draw that picks the mean's twin acts differently, and does the same. The twins' values are
equal in truth, so the difference between them also tells how far the mean is off.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bdqn.cli.common import load_to_play
from bdqn.config.seeding import generator
from bdqn.learner import Learner
from bdqn.qlearning.acting import Actor

MOVES = np.array([0, 0, 1, 2, 1, 2])  # of NOOP, FIRE, RIGHT, LEFT, RIGHTFIRE, LEFTFIRE
TWINS = ((0, 1), (2, 4), (3, 5))


def beliefs(learner: Learner, decisions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of Q (decisions, actions) at the screens that the agent meets."""
    envs = learner.make_envs([seed], evaluation=True)
    actor = Actor(learner.agent, generator(seed, "evaluation"), greedy=False, epsilon=0.0)
    means, stds = [], []
    for _ in range(decisions):
        q = learner.q_posterior(envs.obs)
        means.append(q.mean[0])
        stds.append(q.std[0])
        step = envs.step(actor.choose(actor.view(envs.obs, envs.allowed)))
        actor.advance(step.ended, step.reward, step.obs)
    envs.close()
    return np.array(means), np.array(stds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--decisions", type=int, default=3_000, help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=123, help="[%(default)s]")
    args = parser.parse_args()
    mean, std = beliefs(load_to_play(args.run, None), args.decisions, args.seed)
    drawn = mean + std * np.random.default_rng(args.seed).standard_normal(mean.shape)
    best, acting = mean.argmax(1), drawn.argmax(1)
    lost = mean.max(1) - mean[np.arange(len(mean)), acting]
    apart = np.mean([np.abs(mean[:, one] - mean[:, other]) for one, other in TWINS])
    expected = np.mean([np.hypot(std[:, one], std[:, other]) for one, other in TWINS]) * np.sqrt(2 / np.pi)
    print(f"spread of Q                          {std.mean():.4f}")
    print(f"a draw acts differently in           {(best != acting).mean():.0%} of screens")
    print(f"it moves differently in              {(MOVES[best] != MOVES[acting]).mean():.0%}")
    print(f"value that it gives up, by the mean  {lost.mean():.4f} per decision")
    print(f"value between best and worst action  {np.ptp(mean, axis=1).mean():.4f}")
    print(f"mean difference between twins        {apart:.4f}; by the spread it would be {expected:.4f}")


if __name__ == "__main__":
    main()
