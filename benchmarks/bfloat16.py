"""Does Bayesian DQN learn as well in bfloat16? MinAtar Breakout, Bayesian DQN, five seeds in each precision.

    .venv/bin/python benchmarks/bfloat16.py --out out/bfloat16

Two trainings at a time; on a processor that has to imitate bfloat16 it takes about half an hour. Runs that are there
already are not repeated.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np

from bdqn.report.load import learning_curve, read_run
from measure import write_rows

ENV, STEPS, SEEDS = "MinAtar/Breakout-v1", 50_000, 5
PRECISIONS = ("float32", "bfloat16")
POINTS = 10  # of each curve


def train(folder: Path, precision: str, seed: int) -> Path:
    run = folder / f"{precision}-{seed}"
    if not (run / "checkpoints" / f"gen-{STEPS:012d}").exists():
        words = ("train", "--env", ENV, "--steps", str(STEPS), "--seed", str(seed), "--quiet", "--out", str(run))
        command = [sys.executable, "-W", "ignore", "-m", "bdqn", *words, "--precision", precision]
        subprocess.run(command, check=True, capture_output=True)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/bfloat16"))
    folder = parser.parse_args().out
    cases = list(product(PRECISIONS, range(SEEDS)))
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda case: train(folder, *case), cases))
    grid = np.linspace(0, STEPS, POINTS + 1)[1:]
    rows = []
    for (precision, seed), run in zip(cases, runs, strict=True):
        curve = learning_curve(read_run(run), grid, window=100)
        rows += [
            {"precision": precision, "seed": seed, "step": int(step), "mean_return": f"{value:.4f}"}
            for step, value in zip(grid, curve, strict=True)
        ]
    write_rows("bfloat16", rows)


if __name__ == "__main__":
    main()
