"""Compare the default agent with Double DQN and plain Bayesian DQN where exploring is hard, and where it is easy.

Grid is an empty room of 16 x 16 cells with one reward in the far corner: whoever explores at random hardly ever gets
there. CartPole rewards every step. The demo trains several seeds of each agent with `bdqn train` and no other setting,
prints a table, and draws the learning curves and what the default agent believes about Q across the room.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

import bdqn
from bdqn.report.figures import draw_learning_curves, draw_posterior, save
from bdqn.report.load import Run, read_run

AGENTS = {"bdqn-explore": "the default agent", "bdqn": "Bayesian DQN", "ddqn": "Double DQN"}
PROBLEMS = {"bdqn/Grid-v0": "Grid, sparse reward", "CartPole-v1": "CartPole, dense reward"}  # id and title

Runs = dict[str, list[Run]]  # by the name of the agent


def train(env: str, agent: str, seed: int, steps: int, folder: Path) -> Run:
    """Train once, with nothing but the defaults."""
    options = ("--env", env, "--agent", agent, "--seed", seed, "--steps", steps, "--out", folder, "--quiet")
    line = [sys.executable, "-m", "bdqn", "train", *map(str, options)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(line)} failed:\n{done.stderr}")
    return read_run(folder)


def print_table(runs: dict[str, Runs], steps: int) -> None:
    """Print what each agent collected over training and at the end; one number per seed."""
    table = Table(title=f"{steps:,} decisions; one number per seed")
    for heading in ("problem", "agent", "mean return over training", "of the last 20 episodes"):
        table.add_column(heading)
    for env, by_agent in runs.items():
        for name, seeds in by_agent.items():
            over, last = (", ".join(f"{np.mean(run.raw_return[-count:]):.3g}" for run in seeds) for count in (0, 20))
            table.add_row(env, name, over, last)
    Console().print(table)


def draw(runs: dict[str, Runs], steps: int, path: Path) -> None:
    """Draw learning curves on both problems, and the default agent's posterior over Q across the room."""
    figure = Figure(figsize=(15, 4))
    *panels, last = figure.subplots(1, 3)
    for axes, (env, by_agent) in zip(panels, runs.items(), strict=True):
        draw_learning_curves(axes, by_agent, steps)
        axes.set_title(PROBLEMS[env])
    panels[0].get_legend().remove()  # the next panel's says the same
    draw_belief(last, bdqn.load(runs["bdqn/Grid-v0"][AGENTS["bdqn-explore"]][0].path))
    save(figure, path)


def draw_belief(axes: Axes, learner: bdqn.Learner) -> None:
    """Draw the posterior over Q of a step towards the reward and of one away from it, along the room's diagonal."""
    size = learner.envs.envs[0].unwrapped.size
    cells = np.arange(size - 1)  # the last one is the reward
    belief = learner.q_posterior(np.stack([cells, cells], axis=1).astype(np.float32))
    names = ("towards the reward", "away from it")  # actions 0 and 1
    draw_posterior(axes, cells, belief.mean[:, :2], belief.std[:, :2], names, "steps from the corner, both ways")
    axes.legend(frameon=False)
    axes.set_title("Grid: what the default agent believes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="replaced if it exists")
    parser.add_argument("--steps", type=int, default=10_000, help="decisions per run")
    parser.add_argument("--seeds", type=int, default=3, help="runs per agent and problem")
    options = parser.parse_args()
    folder = options.out / "demo-runs"
    shutil.rmtree(folder, ignore_errors=True)

    jobs = list(product(PROBLEMS, AGENTS, range(options.seeds)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(
            lambda job: train(*job, options.steps, folder / "-".join(map(str, job)).replace("/", "-")), jobs
        )
        done = dict(zip(jobs, track(results, f"training {len(jobs)} runs", total=len(jobs)), strict=True))

    seeds = range(options.seeds)
    runs = {env: {name: [done[env, agent, s] for s in seeds] for agent, name in AGENTS.items()} for env in PROBLEMS}
    print_table(runs, options.steps)
    draw(runs, options.steps, options.out / "demo.png")
    print(f"Figure: {options.out / 'demo.png'}   Runs: {folder}")


if __name__ == "__main__":
    main()
