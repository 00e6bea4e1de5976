"""Keep what the paper reports beside scores, and how the belief changed: python experiments/atari/details.py SWEEP...

SWEEP is a directory that `bdqn sweep` wrote. Adds to results/pong/details.csv, or to the file that ``--out`` names; a
run that is there already is replaced.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bdqn.report.cells import write_table
from bdqn.report.collect import read_rows
from bdqn.report.load import read_table
from bdqn.report.paper import published
from bdqn.report.paper.our_runs import game_of
from bdqn.report.runs import RunRecord, read_runs

OWN = Path(__file__).parent / "results" / "pong" / "details.csv"
COLUMNS = ("env", "group", "seed", "what", "step", "value")
Detail = tuple[str, float, float]  # what, at which decision, its value
BELIEF = ("posterior/std_mean", "posterior/draw_differs", "posterior/within_1_std", "posterior/within_2_std")


def details_of(run: RunRecord) -> Iterator[Detail]:
    """Of one run; what it does not know is left out."""
    game = game_of(run.env)
    assert game is not None, f"{run.env} is not one of the paper's games."
    for column in ("Human", "DDQN+"):
        step = published.decisions_to_beat(*run.episodes, published.SCORES.rows[game][column].value)
        yield f"decisions to beat {column}", run.decisions, step
    yield "area above the floor", run.end, run.area + published.shift_of(game)
    speed = read_table(run.path / "timing.csv", ("step", "steps_per_second"))
    learning = speed["step"] > run.settings["learning_starts"]
    yield "decisions per second", run.decisions, float(np.median(speed["steps_per_second"][learning]))
    for evaluation in run.evaluated:
        yield f"score at epsilon {evaluation.epsilon:g}", evaluation.step, evaluation.mean
        yield f"episodes at epsilon {evaluation.epsilon:g}", evaluation.step, len(evaluation.returns)
        for name, coverage in (("own", evaluation.coverage), ("calibrated", evaluation.calibrated)):
            if coverage is not None:
                yield f"held by {name} intervals of {coverage.level:g}", evaluation.step, coverage.held
    for name in BELIEF:
        if name in run.metrics:
            yield from ((name, *point) for point in zip(run.metrics["step"], run.metrics[name], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="what bdqn sweep wrote")
    parser.add_argument("--out", type=Path, default=OWN, help="[%(default)s]")
    args = parser.parse_args()
    rows = [
        (run.env, run.group, str(run.seed), what, f"{step:.0f}", f"{value:.5g}")
        for run in read_runs(args.folders).records
        for what, step, value in details_of(run)
        if np.isfinite(value)
    ]
    new = {row[:3] for row in rows}
    kept = [tuple(row.values()) for row in read_rows(args.out)]
    rows = [*(row for row in kept if row[:3] not in new), *rows]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_table(args.out, [COLUMNS, *rows])
    print(f"{args.out}: {len(rows)} rows")


if __name__ == "__main__":
    main()
