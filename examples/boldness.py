"""Which draws act, and what they return: one run of bdqn-explore, from its metrics.

bdqn train --env bdqn/DeceptiveGrid-v0 --steps 20000 --log-freq 100 --seed 103 --out out/boldness
python examples/boldness.py out/boldness
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from bdqn.report.collect import read_rows
from bdqn.report.figures import COLORS, label, name_axes, save

SMOOTHED = 10  # rows of metrics


def column(rows: list[dict[str, str]], name: str) -> np.ndarray:
    return np.array([float(row[name] or "nan") for row in rows])


def boldness_figure(run: Path) -> Figure:
    """Returns of episodes with the record of each kind; below, how much of the time bold draws act."""
    metrics, episodes = (read_rows(run / name) for name in ("metrics.csv", "episodes.csv"))
    step = column(metrics, "step")
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    returns, share = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    returns.plot(
        column(episodes, "step"), column(episodes, "return"), ".", color="0.75", markersize=3, label="an episode"
    )
    for kind, color in zip(("modest", "bold"), COLORS, strict=False):
        returns.plot(step, column(metrics, f"explore/{kind}_return"), color=color, label=f"{kind} draws, lately")
    label(returns, "", "return")
    bold = np.nan_to_num(column(metrics, "explore/bold_share"))
    share.fill_between(step, np.convolve(bold, np.full(SMOOTHED, 1 / SMOOTHED), "same"), color=COLORS[1], alpha=0.5)
    share.set_ylim(0, 1)
    name_axes(share, "decisions", "bold")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the directory of a run of bdqn-explore")
    parser.add_argument("--out", type=Path, default=Path("out/boldness.png"), help="file for the figure [%(default)s]")
    options = parser.parse_args()
    save(boldness_figure(options.run), options.out)
    print(options.out)


if __name__ == "__main__":
    main()
