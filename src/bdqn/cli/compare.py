"""``bdqn compare``: what a sweep has found, with intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bdqn.cli.common import correctable, on_one_line
from bdqn.cli.options import Parser
from bdqn.settings import SettingError, nearest

if TYPE_CHECKING:
    from bdqn.report.compare import Row


def run(argv: list[str]) -> int:
    """Print the tables, draw the curves, and name what is missing."""
    parser = Parser(
        prog="bdqn compare",
        description="Compare the agents of a sweep, per environment and over all, with 95 %% intervals over seeds.",
    )
    parser.add_argument("sweep", metavar="DIR", help="the sweep's directory")
    parser.add_argument("--baseline", metavar="GROUP", help="whom the others are compared with [the first group]")
    parser.add_argument("--out", metavar="DIR", help="where tables and curves go [the sweep's directory]")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap [%(default)s]")
    args = parser.parse(argv)

    import numpy as np

    from bdqn.report import compare as report
    from bdqn.report.figures import save

    with correctable():
        comparison = report.read_comparison(Path(args.sweep))
    for remark in comparison.remarks:
        print(f"note: {on_one_line(remark)}")
    if not comparison.trials:
        raise SettingError(f"{args.sweep} holds no trial with a finished episode yet.")
    baseline = args.baseline or comparison.groups[0]
    if baseline not in comparison.groups:
        raise SettingError(f"There is no group {baseline!r}; {nearest(baseline, comparison.groups)}")
    rng = np.random.default_rng(args.seed)
    tables = {
        "scores": report.score_rows(comparison, rng),
        "ratios": report.ratio_rows(comparison, baseline, rng),
        "improvement": report.improvement_rows(comparison, baseline, rng),
    }
    _print("score (mean over seeds)", tables["scores"], lambda v: f"{v:,.2f}")
    _print(f"times {baseline}", tables["ratios"], lambda v: f"{v:.3f}")
    _print(f"probability of a higher score than {baseline}", tables["improvement"], lambda v: f"{v:.2f}")
    out = Path(args.out or args.sweep)
    with correctable():
        out.mkdir(parents=True, exist_ok=True)
        for name, rows in tables.items():
            report.write_rows(out / f"{name}.csv", rows)
        report.write_runs(out / "runs.csv", comparison)
        curves = report.curves_of(comparison)
        report.write_curves(out / "curves.csv", curves)
        save(report.curves_figure(curves, rng), out / "curves.png")
    print(f"\n{out}: scores.csv, ratios.csv, improvement.csv, runs.csv, curves.csv, curves.png")
    return 0


def _print(title: str, rows: Sequence[Row], show: Callable[[float], str]) -> None:
    if not rows:
        return
    cells = [("environment", "group", "by", "seeds", title)]
    cells += [
        (row.env, row.group, row.score, str(row.seeds), f"{show(row.estimate)} ({show(row.low)} to {show(row.high)})")
        for row in rows
    ]
    widths = [max(len(on_one_line(line[i])) for line in cells) for i in range(4)]
    print()
    for line in cells:
        print("  ".join(on_one_line(cell).ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)))
