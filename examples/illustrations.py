"""The paper's two illustrations: how agents explore, and which of two equally good actions is safer.

The paper gives no numbers; these are chosen to show what its text says. --run draws the first also for a trained agent,
at the start of an episode: `python examples/illustrations.py --run runs/CartPole-v1/bdqn/TIME_sSEED`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bdqn.report.figures import save_all
from bdqn.report.paper.drawings import BELIEFS, SAFETY_NAMES, SAME_MEAN
from bdqn.report.paper.illustrations import Belief, exploration_figure, safety_figure


def belief_of(run: str) -> Belief:
    """The belief of a trained agent at the start of an episode."""
    import bdqn

    learner = bdqn.load(run)
    q = learner.q_posterior(learner.envs.obs[0])
    return q.mean, q.std


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=Path("out/illustrations"), help="directory for the figures [%(default)s]"
    )
    parser.add_argument("--run", help="a run of a Bayesian agent to draw as well")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    figures = {
        "exploration": exploration_figure(BELIEFS, rng),
        "safety": safety_figure(*SAME_MEAN, names=SAFETY_NAMES),
    }
    if options.run:
        figures["agent"] = exploration_figure({options.run: belief_of(options.run)}, rng)
    for name in save_all(figures, options.out, ["png"]):
        print(options.out / name)


if __name__ == "__main__":
    main()
