"""Act safely with the agents of experiments/calibration, and see how often that fails, and what claims of safety hold:
python experiments/safety/measure.py SWEEP_DIRECTORY...

Adds to results/acts.csv and results/claims.csv, or below the directory that ``--out`` names; a run that is there
already is not measured again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np

from bdqn.cli.common import load_to_play
from bdqn.config.seeding import integer_seed
from bdqn.learner import Learner
from bdqn.qlearning.choices import Policy
from bdqn.qlearning.judgement import Spread, judge, safe_policy
from bdqn.qlearning.q_posterior import QPosterior
from bdqn.report.cells import write_table
from bdqn.report.collect import KEY, read_rows
from bdqn.report.load import read_meta
from bdqn.runs.evaluation import evaluate
from bdqn.sweep.folder import SweepFolder

OWN = Path(__file__).parent / "results"
THRESHOLDS = {  # a return below it is a failure: a fall, a dive without treasure, a ball that was never hit
    "bdqn/Cliff-v0": 0.0,
    "bdqn/StochasticDeepSea10-v0": 0.0,
    "MinAtar/Breakout-v1": 1.0,
}
LEVEL = 0.9
CALIBRATING, TESTING = 100, 200  # episodes
WORST = 0.05
ACTS = (*KEY, "act", "failures", "mean", "worst")
CLAIMS = (*KEY, "spread", "claimed", "held", "std_at_start", "true_std_at_start")


def policies(learner: Learner) -> dict[str, Policy | None]:
    """How to act: by the mean, and safely on the calibrated and on the epistemic spread."""
    known = learner.calibration
    return {
        "mean": None,
        "lcb, calibrated": safe_policy("lcb", LEVEL, known),
        "cvar, calibrated": safe_policy("cvar", LEVEL, known),
        "lcb, epistemic": safe_policy("lcb", LEVEL, None),
        "cvar, epistemic": safe_policy("cvar", LEVEL, None),
    }


def acts(learner: Learner, threshold: float) -> Iterator[tuple[str, ...]]:
    """What each way to act collects, on the same seed."""
    for name, policy in policies(learner).items():
        seed = integer_seed(learner.seed, "acting")
        returns = np.sort(evaluate(learner, TESTING, seed=seed, policy=policy).returns)
        worst = returns[: max(1, round(WORST * len(returns)))].mean()
        numbers = ((returns < threshold).mean(), returns.mean(), worst)
        yield name, *(f"{number:.4g}" for number in numbers)


def claims(learner: Learner, threshold: float) -> Iterator[tuple[str, ...]]:
    """Of the greedy policy's decisions, how many each spread calls safe, and how many of those were."""
    found = evaluate(learner, TESTING, seed=integer_seed(learner.seed, "claims"), spread=True).outcomes
    assert found is not None
    _, start = np.unique(found.episode, return_index=True)
    q = QPosterior(found.mean, found.std, found.predictive_std, learner.calibration)
    assert q.calibrated_std is not None
    stds = {"epistemic": q.std, "predictive": q.predictive_std, "calibrated": q.calibrated_std}
    for spread in get_args(Spread):
        safe = judge(q, "probability", threshold, LEVEL, spread).safe
        weight = found.weight * safe
        held = (weight * (found.outcome >= threshold)).sum() / weight.sum() if safe.any() else np.nan
        numbers = (weight.sum() / found.weight.sum(), held, stds[spread][start].mean(), found.outcome[start].std())
        yield spread, *("" if np.isnan(number) else f"{number:.4g}" for number in numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="what bdqn sweep wrote")
    parser.add_argument("--out", type=Path, default=OWN, help="[%(default)s]")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    tables = {"acts.csv": (ACTS, acts), "claims.csv": (CLAIMS, claims)}
    kept = {name: [tuple(row.values()) for row in read_rows(args.out / name)] for name in tables}
    for sweep in map(SweepFolder, args.folders):
        for trial in sweep.rows():
            key, path = tuple(trial[name] for name in KEY), sweep.place(trial)
            done = all(any(row[: len(KEY)] == key for row in rows) for rows in kept.values())
            if done or trial["env"] not in THRESHOLDS or read_meta(path).get("status") != "finished":
                continue
            learner = load_to_play(path, None)
            learner.calibrate(CALIBRATING, seed=learner.seed)
            for name, (columns, rows_of) in tables.items():
                rows = [row for row in kept[name] if row[: len(KEY)] != key]
                kept[name] = [*rows, *((*key, *row) for row in rows_of(learner, THRESHOLDS[trial["env"]]))]
                write_table(args.out / name, [columns, *kept[name]])
            learner.envs.close()
            print(f"{' '.join(key)}: measured", flush=True)


if __name__ == "__main__":
    main()
