"""``bdqn compare``: what sweeps or runs have found, with intervals over seeds."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bdqn.cli import comparing
from bdqn.cli.common import correctable, runs_at, say
from bdqn.cli.layout import split_table, terminal_width
from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError
from bdqn.storage.safe_files import printable

if TYPE_CHECKING:
    from bdqn.report.tables import Row, RowTable


def run(argv: list[str]) -> int:
    """Print the tables, draw the curves, and name what is missing."""
    parser = Parser(
        prog="bdqn compare",
        description="Compare agents, per environment and over all, with bootstrap intervals over seeds.",
    )
    parser.add_argument(
        "sweeps", metavar="DIR", nargs="+", help="a sweep's directory, or any with sweeps or runs below it"
    )
    parser.add_argument("--level", type=float, default=0.95, help="of the intervals [%(default)s]")
    parser.add_argument("--out", metavar="DIR", help="where tables and curves go [the directory, if it is one]")
    comparing.add_flags(parser)
    args = parser.parse(argv)
    if not 0 < args.level < 1:
        raise SettingError(f"--level must lie between 0 and 1, as 0.95 does, not be {args.level:g}.")
    comparing.check(args)
    out = Path(args.out or _only(args.sweeps))

    import numpy as np

    from bdqn.report import compare, figures, grid, tables
    from bdqn.report.runs import compare_runs

    with correctable():
        comparison = compare_runs(runs_at(args.sweeps))
    for remark in comparison.remarks:
        say(f"note: {remark}")
    if not comparison.results:
        why = f" ({comparison.remarks[0]})" if comparison.remarks else ""
        raise SettingError(f"{', '.join(args.sweeps)} holds no trial with a finished episode yet{why}.")
    baseline = comparing.baseline_of(args, comparison.groups)
    for remark in comparison.unpaired(baseline):
        say(f"note: {remark}")
    rng = np.random.default_rng(args.seed)
    found = tables.all_tables(comparison, baseline, rng, args.level)
    caution = compare.caution(comparison.results)
    for line in _lines(found, caution):
        print(line)
    drawn = {"curves": figures.curves_figure(comparison.results, rng, args.level)}
    relative = {kind: tables.relative_scores(comparison, baseline, kind) for kind in compare.SCORES}
    known = {kind: scores for kind, scores in relative.items() if scores}
    if known:
        drawn["profiles"] = figures.profiles_figure(known, baseline, rng, args.level)
    with correctable():
        out.mkdir(parents=True, exist_ok=True)
        tables.write_rows(out / "tables.csv", (row for table in found for row in table.rows))
        grid.write_latex(out / "tables.tex", (table.grid(caution) for table in found))
        compare.write_results(out, comparison)
        files = figures.save_all(drawn, out, comparing.formats_of(args))
    print(f"\n{out}: {', '.join(('tables.csv', 'tables.tex', 'runs.csv', 'curves.csv', *files))}")
    return 0


def _only(places: Sequence[str]) -> str:
    """Where results go if nobody says where: to the directory that they are of."""
    if len(places) > 1:
        raise SettingError("Of several directories, say by --out DIR where tables and curves go.")
    from bdqn.report.find import is_run

    if is_run(Path(places[0])):
        raise SettingError(f"{places[0]} is a single run: give a directory with several below it, or several runs.")
    return places[0]


def _lines(found: Sequence[RowTable], caution: str) -> Iterator[str]:
    """The tables as they are printed, by environment and score, and what their intervals are worth."""
    from bdqn.report.runs import grouped

    room = terminal_width(unknown=120)
    for table in found:
        yield from ("", printable(table.title))
        for (env, score), rows in grouped(table.rows, lambda row: (row.env, row.score)).items():
            yield from ("", printable(f"{env}, {score}{_seeds(rows)}"))
            yield from split_table(_cells(rows), keys=1, room=room)
    if caution:
        yield ""
        yield from textwrap.wrap(caution, room)


def _seeds(rows: Sequence[Row]) -> str:
    """How many seeds figures rest on, where that is the same for all."""
    counts = {row.seeds for row in rows}
    return f" ({counts.pop()} seeds)" if len(counts) == 1 else ""


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    """Without environment and score, and without seeds where these are said above."""
    from bdqn.report.tables import layout

    shown = [1, *([] if _seeds(rows) else [3])]
    return [[printable(cell) for cell in (*(line[i] for i in shown), *line[4:])] for line in layout(rows)]
