"""Normalised areas on the sparse problems: 0 is a random policy, 1 the optimum.

Reads the CSV files of results/sparse only: python experiments/exploration_suite/analysis.py
"""

from __future__ import annotations

import numpy as np

from bdqn.envs import make_env
from bdqn.report import stats
from bdqn.report.experiment import Page

LEVEL = 0.9
# Return of a random policy and of the best one, where an environment cannot compute them.
KNOWN = {"MountainCar-v0": (-200.0, -105.0), "bdqn/DeepSea10-v0": (0.0, 0.99)}


def bounds(env_id: str) -> tuple[float, float]:
    """What chance and the best policy collect in an episode."""
    if env_id in KNOWN:
        return KNOWN[env_id]
    problem = make_env(env_id).unwrapped
    return float(problem.random_return), float(problem.optimal_return)  # type: ignore[attr-defined]


page = Page(__file__)
page.say("# Sparse problems: normalised area under the learning curve")
found = page.read("sparse.toml").found
lines = [["environment", *found.groups]]
means: dict[str, list[float]] = {group: [] for group in found.groups}
for env in found.envs:
    random, optimum = bounds(env)
    cells = [env]
    for group in found.groups:
        areas = {run.seed: (run.area - random) / (optimum - random) for run in found.of(group, env)}
        if len(areas) < 2:
            cells.append("-")
            continue
        scores = stats.by_environment({env: areas})
        interval = stats.bootstrap(stats.mean, scores, page.rng, level=LEVEL)
        means[group].append(float(stats.mean(scores)))
        cells.append(f"{means[group][-1]:.2f} ({interval.low:.2f} to {interval.high:.2f})")
    lines.append(cells)
lines.append(["mean", *(f"{np.mean(values):.2f}" if values else "-" for values in means.values())])
page.cells(lines)
page.say(f"Means over seeds with {LEVEL:.0%} bootstrap intervals; 0 is a random policy, 1 the optimum.")
page.write()
