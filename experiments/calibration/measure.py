"""Play with the agents of the sweeps, and count how many returns their intervals hold, before and after calibration:
python experiments/calibration/measure.py SWEEP_DIRECTORY...

Adds to results/coverage.csv, or to the file that ``--out`` names; a run that is there already is not measured again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bdqn.cli.common import load_to_play
from bdqn.config.seeding import integer_seed
from bdqn.qlearning.calibration import Array, Calibration, Outcomes, gaussian_width
from bdqn.report.cells import write_table
from bdqn.report.collect import KEY, read_rows
from bdqn.report.load import read_meta
from bdqn.runs.evaluation import evaluate
from bdqn.sweep.folder import SweepFolder

OWN = Path(__file__).parent / "results" / "coverage.csv"
COLUMNS = (*KEY, "method", "level", "held", "held_at_start", "width", "bias", "spread")
LEVELS = (0.5, 0.9, 0.99)
CALIBRATING, TESTING = 200, 100  # episodes; intervals of 99 % need 199

Interval = tuple[Array, Array]


def intervals(before: Outcomes, after: Outcomes, level: float) -> Iterator[tuple[str, Interval]]:
    """Intervals of the later episodes' decisions, by today's spreads and by ways to calibrate on the earlier ones."""
    width = gaussian_width(level)
    yield "epistemic", (after.mean - width * after.std, after.mean + width * after.std)
    yield "predictive", (after.mean - width * after.predictive_std, after.mean + width * after.predictive_std)
    distance = (before.outcome - before.mean) / before.predictive_std
    shift = np.average(distance, weights=before.weight)
    scale = np.sqrt(np.average((distance - shift) ** 2, weights=before.weight))
    middle, reach = after.mean + shift * after.predictive_std, width * scale * after.predictive_std
    yield "fitted bias and scale", (middle - reach, middle + reach)
    for name, own, other in (
        ("conformal, predictive", before.predictive_std, after.predictive_std),
        ("conformal, epistemic", before.std, after.std),
        ("conformal, constant", np.ones_like(before.std), np.ones_like(after.std)),
    ):
        calibration = Calibration.of(replace(before, predictive_std=own), 0)
        yield name, calibration.interval(after.mean, other, level)


def measured(path: Path) -> Iterator[tuple[str, ...]]:
    """The rows of one run."""
    learner = load_to_play(path, None)
    played = [
        evaluate(learner, episodes, seed=integer_seed(learner.seed, purpose), spread=True).outcomes
        for purpose, episodes in (("calibrating", CALIBRATING), ("testing", TESTING))
    ]
    learner.envs.close()
    before, after = (outcomes for outcomes in played if outcomes is not None)
    _, start = np.unique(after.episode, return_index=True)
    bias = np.average(after.mean - after.outcome, weights=after.weight)
    spread = np.sqrt(np.average((after.outcome - after.mean + bias) ** 2, weights=after.weight))
    for level in LEVELS:
        for method, (low, high) in intervals(before, after, level):
            held = (low <= after.outcome) & (after.outcome <= high)
            share, width = (np.average(values, weights=after.weight) for values in (held, high - low))
            numbers = (share, held[start].mean(), width, bias, spread)
            yield (method, f"{level:g}", *(f"{value:.4g}" for value in numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="what bdqn sweep wrote")
    parser.add_argument("--out", type=Path, default=OWN, help="[%(default)s]")
    args = parser.parse_args()
    rows = [tuple(row.values()) for row in read_rows(args.out)]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for sweep in map(SweepFolder, args.folders):
        for trial in sweep.rows():
            key = tuple(trial[name] for name in KEY)
            path = sweep.place(trial)
            if any(row[: len(KEY)] == key for row in rows):
                continue
            if read_meta(path).get("status") != "finished":
                print(f"{' '.join(key)} is not finished, and left out.")
                continue
            rows += [(*key, *row) for row in measured(path)]
            write_table(args.out, [COLUMNS, *rows])
            print(f"{' '.join(key)}: measured", flush=True)


if __name__ == "__main__":
    main()
