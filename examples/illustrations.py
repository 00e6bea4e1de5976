"""The paper's two illustrations: why Thompson sampling, and which of two equally good actions is safer.

The paper draws them without numbers; these are chosen to show what its text says. With --run the first is also drawn
for a trained agent, where it stands: `python examples/illustrations.py --run runs/CartPole-v1/bdqn/TIME_sSEED`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bdqn.report.figures import save
from bdqn.report.illustrations import Belief, exploration_figure, safety_figure

WELL_KNOWN: Belief = (np.array([1.0, 0.85, 0.8, 0.75, 0.2, 0.1]), np.full(6, 0.05))
ONE_UNKNOWN: Belief = (np.array([1.0, 0.8, 0.6, 0.5, 0.85, 0.85]), np.array([0.05, 0.05, 0.05, 0.05, 0.05, 0.5]))
SAME_MEAN: Belief = (np.array([1.0, 1.0]), np.array([0.25, 0.75]))


def belief_of(run: str) -> Belief:
    """What a trained agent believes at the start of an episode."""
    import bdqn

    learner = bdqn.load(run)
    q = learner.q_posterior(learner.envs.obs[0])
    return q.mean, q.std


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="where the figures go")
    parser.add_argument("--run", help="a run of a Bayesian agent, to be drawn too")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    beliefs = {"(a) every value is well known": WELL_KNOWN, "(b) action 6 is hardly known": ONE_UNKNOWN}
    save(exploration_figure(beliefs, rng), options.out / "exploration.png")
    save(safety_figure(*SAME_MEAN, names=["action 1, well known", "action 2, less so"]), options.out / "safety.png")
    if options.run:
        save(exploration_figure({options.run: belief_of(options.run)}, rng), options.out / "agent.png")


if __name__ == "__main__":
    main()
