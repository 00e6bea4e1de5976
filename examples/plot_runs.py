"""Learning curves of run directories, one panel per environment, one colour per agent.

python examples/plot_runs.py out/learning/*/* --out curves.png
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from matplotlib.figure import Figure

from bdqn.report.figures import draw_learning_curves, save
from bdqn.report.load import Run, read_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="run directories")
    parser.add_argument("--out", type=Path, default=Path("curves.png"))
    parser.add_argument("--window", type=int, default=100, help="episodes in a mean")
    options = parser.parse_args()
    panels: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in map(read_run, options.runs):
        panels[run.config["env"]][run.agent].append(run)
    figure = Figure(figsize=(5.5 * len(panels), 4))
    for axes, (env, agents) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        draw_learning_curves(
            axes, agents, max(run.config["steps"] for runs in agents.values() for run in runs), options.window
        )
        axes.set_title(env)
    save(figure, options.out)
    print(options.out)


if __name__ == "__main__":
    main()
