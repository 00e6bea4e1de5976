"""Bayesian DQN beside Double DQN, with the same training settings, where finding the goal takes exploration.

MountainCar pays -1 per decision until a weak car has swung itself up a hill, so nothing is learned before the hill
has been climbed once. Trains several seeds of both agents with `bdqn train`, prints a table, and draws their learning
curves and the posterior over Q.
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
from bdqn.report.figures import draw_learning_curves, draw_posterior, learning_curve, save
from bdqn.report.load import Run, read_run

ENV = "MountainCar-v0"
AGENTS = {"ddqn": "Double DQN", "bdqn": "Bayesian DQN"}
ACTIONS = ("push left", "coast", "push right")


def command(*words: str | Path) -> str:
    """Run a bdqn command and give what it printed."""
    line = [sys.executable, "-m", "bdqn", *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(line)} failed:\n{done.stderr}")
    return done.stdout


def train_and_evaluate(agent: str, seed: int, steps: int, folder: Path) -> float:
    """One run; gives the mean return of its greedy policy."""
    command("train", "--agent", agent, "--env", ENV, "--steps", steps, "--seed", seed, "--out", folder, "--quiet")
    return float(json.loads(command("evaluate", folder, "--episodes", "20", "--json"))["mean_reward"])


def print_table(runs: dict[str, list[Run]], greedy: dict[str, list[float]], steps: int) -> None:
    """First arrival at the goal, and how good the behaviour and the greedy policy are, for each agent."""
    table = Table(title=f"{ENV}, {steps:,} decisions, {len(next(iter(runs.values())))} seeds (min to max)")
    for heading in ("agent", "first at the goal", "return while learning", "last 20 episodes", "greedy policy"):
        table.add_column(heading)
    for name, seeds in runs.items():
        arrivals = [run.step[run.raw_return > -200] for run in seeds]
        first = [f"{int(a[0]):,}" if len(a) else "never" for a in arrivals]
        mean = [float(run.raw_return.mean()) for run in seeds]
        last = [float(learning_curve(run, np.array([steps]))[0]) for run in seeds]
        table.add_row(name, ", ".join(first), *(f"{min(v):.0f} to {max(v):.0f}" for v in (mean, last, greedy[name])))
    Console().print(table)


def draw(runs: dict[str, list[Run]], steps: int, path: Path) -> None:
    """Learning curves, and the posterior over Q of a car at rest anywhere in the valley."""
    figure = Figure(figsize=(11, 4))
    left, right = figure.subplots(1, 2)
    draw_learning_curves(left, runs, steps)
    left.set_title(f"{ENV}: every seed, and the mean")
    learner = bdqn.load(runs["Bayesian DQN"][0].path / "checkpoints" / "final")
    positions = np.linspace(-1.2, 0.6, 100)
    belief = learner.q_posterior(np.stack([positions, np.zeros(100)], axis=1))
    draw_posterior(right, positions, belief.mean, belief.std, ACTIONS, "position of a car at rest")
    right.set_title("Bayesian DQN's posterior over Q")
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="replaced if it exists")
    parser.add_argument("--steps", type=int, default=40_000, help="decisions per run")
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
