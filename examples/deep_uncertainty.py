"""A figure: why Thompson sampling on the last layer is shallow, and what prior features and sampled backups change.

Left: a chain whose end was never visited. Right: the uncertainty of two agents about DeepSea's states after the same
random decisions.

    python examples/deep_uncertainty.py --out docs/images/bdqn-deep.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import bdqn
from bdqn.bayes.noise import Fixed
from bdqn.bayes.numerics import Array
from bdqn.bayes.posterior import Moments, Prior, fit
from bdqn.bayes.sampled_backups import Transitions, sampled_backups
from bdqn.report.figures import COLORS, name_axes, save

LENGTH, VISITS, GAMMA, NOISE_VAR, PRIOR_VAR = 20, 20, 0.98, 0.01, 1.0
SIZE, DECISIONS = 12, 1_200


def chain() -> Transitions:
    """States in a row. All are visited often, except the last."""
    states = np.repeat(np.arange(LENGTH - 1), VISITS)
    eye = np.eye(LENGTH, dtype=np.float32)
    zeros = np.zeros(len(states), np.float32)
    once, action = np.ones(len(states), np.int64), np.zeros(len(states), np.int64)
    return Transitions(eye[states], once, action, zeros, zeros + np.float32(GAMMA), eye[states + 1])


def draw_chain(axes: Axes) -> None:
    """Plot the spread of Q over many draws, state by state."""
    rows = chain()
    moments = Moments.zero(LENGTH, (1,))
    moments.add_by_action(rows.x, rows.action, rows.reward)
    belief = fit(moments, Prior(PRIOR_VAR, Fixed(NOISE_VAR)))
    for color, sweeps, kind in ((COLORS[1], 0, "plain draws"), (COLORS[0], LENGTH, "draws that are backed up")):
        _, draws = sampled_backups(belief, rows, np.random.default_rng(0), 2_000, sweeps)
        axes.plot(np.arange(1, LENGTH + 1), draws[:, 0].std(0), "o-", color=color, label=kind, markersize=4)
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_ylim(0)
    axes.set_title("a chain: does the start know\nthat its end is unknown?", fontsize=10)
    name_axes(axes, "state; the last was never visited", "standard deviation of Q")
    axes.legend(frameon=False, loc="center left")


def uncertainty(agent: str) -> tuple[Array, Array]:
    """The regression's own spread at every state of DeepSea, before any backup, and the visits to each state."""
    learner = bdqn.make(
        agent,
        "bdqn/DeepSea-v0",
        env_kwargs={"size": SIZE},
        reward_scaling=False,
        noise_var=NOISE_VAR,
        prior_var=PRIOR_VAR,
        learning_rate=1e-3,
        learning_starts=100,
        target_update_interval=100,
        posterior_update_interval=100,
    )
    visits = np.zeros((SIZE, SIZE))
    rng = np.random.default_rng(0)
    for actions in rng.integers(2, size=(DECISIONS, 1)):
        visits += learner.envs.obs[0]
        learner.agent.observe(actions, learner.envs.step(actions))
    states = np.eye(SIZE * SIZE, dtype=np.float32).reshape(-1, SIZE, SIZE)
    belief = learner.agent.view(states).belief
    assert belief is not None
    return belief.posterior.std(belief.x).max(0).reshape(SIZE, SIZE), visits


def draw_sea(axes: Axes, agent: str, title: str) -> None:
    std, visits = uncertainty(agent)
    reachable = np.tril(np.ones((SIZE, SIZE), bool))
    image = axes.imshow(np.where(reachable, std, np.nan), vmin=0, vmax=0.8, cmap="viridis")
    for row, column in np.argwhere(reachable & (visits == 0)):
        color = "black" if std[row, column] > 0.4 else "white"
        axes.text(column, row, "?", ha="center", va="center", color=color, fontsize=8)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title, fontsize=10)
    axes.figure.colorbar(image, ax=axes, shrink=0.8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("docs/images/bdqn-deep.png"))
    out: Path = parser.parse_args().out
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.2, 1, 1])
    draw_chain(left)
    draw_sea(middle, "bdqn", "DeepSea, learned features:\nstates never seen (?) look known")
    draw_sea(right, "bdqn-deep", "with prior features:\nwhat is new looks new")
    save(figure, out)
    print(out)


if __name__ == "__main__":
    main()
