"""``bdqn compare``: what a sweep has found, with intervals over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bdqn.cli.common import correctable, on_one_line
from bdqn.cli.options import Parser
from bdqn.settings import SettingError, nearest

if TYPE_CHECKING:
    from bdqn.report.tables import Row


def run(argv: list[str]) -> int:
    """Print the tables, draw the curves, and name what is missing."""
    parser = Parser(
        prog="bdqn compare",
        description="Compare the agents of a sweep, per environment and over all, with bootstrap intervals over seeds.",
    )
    parser.add_argument("sweep", metavar="DIR", help="the sweep's directory")
    parser.add_argument("--baseline", metavar="GROUP", help="whom the others are compared with [the first group]")
    parser.add_argument("--level", type=float, default=0.95, help="of the intervals [%(default)s]")
    parser.add_argument("--out", metavar="DIR", help="where tables and curves go [the sweep's directory]")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap [%(default)s]")
    args = parser.parse(argv)
    if not 0 < args.level < 1:
        raise SettingError(f"--level must lie between 0 and 1, as 0.95 does, not be {args.level:g}.")
    if args.seed < 0:
        raise SettingError(f"--seed must be at least 0, not {args.seed}.")

    import numpy as np

    from bdqn.report import compare, figures, tables

    with correctable():
        comparison = compare.read_comparison(Path(args.sweep))
    baseline = args.baseline or next(iter(comparison.groups), "")
    for remark in [*comparison.remarks, *comparison.unpaired(baseline)]:
        print(f"note: {on_one_line(remark)}")
    if not comparison.results:
        raise SettingError(f"{args.sweep} holds no trial with a finished episode yet.")
    if baseline not in comparison.groups:
        raise SettingError(f"There is no group {baseline!r}; {nearest(baseline, comparison.groups)}")
    rng = np.random.default_rng(args.seed)
    found = tables.all_rows(comparison, baseline, rng, args.level)
    for title, rows in found.items():
        _print(title, rows)
    drawn = {"curves.png": figures.curves_figure(comparison.results, rng, args.level)}
    relative = {kind: tables.relative_scores(comparison, baseline, kind) for kind in compare.SCORES}
    known = {kind: scores for kind, scores in relative.items() if scores}
    if known:
        drawn["profiles.png"] = figures.profiles_figure(known, baseline, rng, args.level)
    out = Path(args.out or args.sweep)
    with correctable():
        out.mkdir(parents=True, exist_ok=True)
        tables.write_rows(out / "tables.csv", (row for rows in found.values() for row in rows))
        compare.write_results(out, comparison)
        for name, figure in drawn.items():
            figures.save(figure, out / name)
    print(f"\n{out}: {', '.join(('tables.csv', 'runs.csv', 'curves.csv', *drawn))}")
    return 0


def _print(title: str, rows: Sequence[Row]) -> None:
    from bdqn.report.tables import layout

    cells = layout(rows, on_one_line)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{on_one_line(title)}")
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
