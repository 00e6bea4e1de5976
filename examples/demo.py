"""Compare Bayesian DQN, plain and deep, with Double DQN in an environment that needs exploration.

In DeepSea one path of 12 right moves leads to the treasure. Every right move costs a little, and all other paths lead
nowhere. The demo trains several seeds of all three agents with `bdqn train` and the same training settings, prints a
table, and draws their learning curves and the posterior over Q along the path.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

import bdqn
from bdqn.learner import QPosterior
from bdqn.report.figures import draw_learning_curves, draw_posterior, save
from bdqn.report.load import Run, read_run

ENV, SIZE = "bdqn/DeepSea-v0", 12
AGENTS = {"ddqn": "Double DQN", "bdqn": "Bayesian DQN", "bdqn-deep": "deep Bayesian DQN"}
# The treasure pays 1 and everything else almost nothing, so rewards need no scaling, and the noise is small. One-step
# returns: longer ones mix the actions of earlier, worse episodes into the value of a state.
TRAINING = ("--reward-scaling", "false", "--n-steps", "1")
OWN = {"ddqn": (), "bdqn": ("--noise-var", "0.01"), "bdqn-deep": ("--noise-var", "0.01")}


def command(*words: str | Path) -> str:
    """Run a bdqn command and return its output."""
    line = [sys.executable, "-m", "bdqn", *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(line)} failed:\n{done.stderr}")
    return done.stdout


def train_and_evaluate(agent: str, seed: int, steps: int, folder: Path) -> float:
    """Train once and return the mean return of the greedy policy."""
    problem = ("--env", ENV, "--env-kwargs", f"size={SIZE}", f"mapping_seed={seed}")
    run = ("--agent", agent, "--seed", seed, "--steps", steps, "--out", folder, "--quiet")
    command("train", *problem, *run, *TRAINING, *OWN[agent])
    return float(json.loads(command("evaluate", folder, "--episodes", "5", "--json"))["mean_reward"])


def print_table(runs: dict[str, list[Run]], greedy: dict[str, list[float]], steps: int) -> None:
    """Print when each agent first found the treasure, and how often at the end; one number per seed."""
    table = Table(title=f"DeepSea {SIZE}x{SIZE}, {steps:,} decisions; one number per seed")
    for heading in ("agent", "treasure first found in episode", "found in the last 100", "greedy return"):
        table.add_column(heading)
    for name, seeds in runs.items():
        found = [np.flatnonzero(run.raw_return > 0.5) for run in seeds]
        first = [str(episodes[0] + 1) if len(episodes) else "never" for episodes in found]
        last = [f"{np.mean(run.raw_return[-100:] > 0.5):.0%}" for run in seeds]
        table.add_row(name, ", ".join(first), ", ".join(last), ", ".join(f"{value:.2f}" for value in greedy[name]))
    Console().print(table)


def along_the_path(learner: bdqn.Learner) -> tuple[QPosterior, np.ndarray]:
    """The posterior at every cell of the path to the treasure, and the action that moves right there."""
    sea = learner.envs.envs[0].unwrapped
    cells = np.stack([np.outer(row, row) for row in np.eye(SIZE, dtype=np.float32)])
    return learner.q_posterior(cells), np.array([int(sea.right_action[row, row]) for row in range(SIZE)])


def draw(runs: dict[str, list[Run]], steps: int, path: Path) -> None:
    """Draw learning curves, and the posterior of deep Bayesian DQN along the path."""
    figure = Figure(figsize=(11, 4))
    left, right = figure.subplots(1, 2)
    draw_learning_curves(left, runs, steps)
    left.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=len(runs))
    left.set_title(f"DeepSea {SIZE}x{SIZE}: every seed, and the mean")
    belief, move_right = along_the_path(bdqn.load(runs["deep Bayesian DQN"][0].path))
    rows = np.arange(SIZE)
    order = np.stack([move_right, 1 - move_right], axis=1)  # (rows, 2): the right move, then the wrong one
    mean, std = (np.take_along_axis(values, order, axis=1) for values in (belief.mean, belief.std))
    draw_posterior(right, rows, mean, std, ("towards the treasure", "away from it"), "row of the path")
    right.set_title("Deep Bayesian DQN's posterior over Q")
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="replaced if it exists")
    parser.add_argument("--steps", type=int, default=12_000, help="decisions per run")
    parser.add_argument("--seeds", type=int, default=4, help="runs per agent")
    options = parser.parse_args()
    runs_folder = options.out / "demo-runs"
    shutil.rmtree(runs_folder, ignore_errors=True)

    jobs = list(product(range(options.seeds), AGENTS))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(
            lambda job: train_and_evaluate(job[1], job[0], options.steps, runs_folder / f"{job[1]}-{job[0]}"), jobs
        )
        scores = dict(zip(jobs, track(results, f"training {len(jobs)} runs", total=len(jobs)), strict=True))

    seeds = range(options.seeds)
    runs = {AGENTS[a]: [read_run(runs_folder / f"{a}-{seed}") for seed in seeds] for a in AGENTS}
    greedy = {AGENTS[a]: [scores[seed, a] for seed in seeds] for a in AGENTS}
    print_table(runs, greedy, options.steps)
    draw(runs, options.steps, options.out / "demo.png")
    print(f"Figure: {options.out / 'demo.png'}   Runs: {runs_folder}")


if __name__ == "__main__":
    main()
