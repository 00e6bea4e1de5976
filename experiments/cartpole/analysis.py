"""Tables and figure of this experiment, from results/ alone.

python experiments/cartpole/analysis.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from bdqn.report import stats
from bdqn.report.compare import curves_figure, read_curves
from bdqn.report.figures import save

HERE = Path(__file__).parent
GROUPS, SEEDS = ("dqn", "ddqn", "bdqn"), 10


def read_runs() -> list[dict[str, str]]:
    """Every run's scores; an experiment that is not complete is refused."""
    with (HERE / "results" / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for group in GROUPS:
        seeds = sorted(int(row["seed"]) for row in rows if row["group"] == group)
        assert seeds == list(range(SEEDS)), f"{group} has seeds {seeds}: run the sweep to its end."
    return rows


def main() -> None:
    rows, rng = read_runs(), np.random.default_rng(0)
    for kind in ("final", "area", "evaluation"):
        for group in GROUPS:
            scores = {"CartPole-v1": np.array([float(row[kind]) for row in rows if row["group"] == group])}
            low, high = stats.bootstrap(stats.mean, scores, rng)
            print(f"{kind:<11} {group:<5} {stats.mean(scores):6.1f} ({low:.1f} to {high:.1f})")
    save(curves_figure(read_curves(HERE / "results" / "curves.csv"), rng), HERE / "results" / "curves.png")


if __name__ == "__main__":
    main()
