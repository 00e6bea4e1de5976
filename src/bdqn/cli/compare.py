"""``bdqn compare``: compares the results of sweeps or runs, with confidence intervals over seeds."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bdqn.cli import compare_flags
from bdqn.cli.common import runs_at, say, user_errors
from bdqn.cli.layout import split_table, terminal_width
from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError
from bdqn.storage.safe_files import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bdqn.report.tables import Row, RowTable


def run(argv: list[str]) -> int:
    """Print the tables, draw the curves and report what is missing."""
    parser = Parser(
        prog="bdqn compare",
        description="Compare agents per environment and overall, with bootstrap confidence intervals over seeds.",
    )
    parser.add_argument(
        "sweeps", metavar="DIR", nargs="+", help="a sweep's directory, or one with sweeps or runs below it"
    )
    parser.add_argument("--level", type=float, default=0.95, help="confidence level of the intervals [%(default)s]")
    parser.add_argument("--out", metavar="DIR", help="where to write tables and curves [DIR, if there is only one]")
    parser.add_argument(
        "--published",
        action="store_true",
        help="draw episodes to solve DeepSea against its size, beside published lines, and name their sources",
    )
    compare_flags.add_flags(parser)
    args = parser.parse(argv)
    if not 0 < args.level < 1:
        raise SettingError(f"--level must be between 0 and 1, such as 0.95, not {args.level:g}.")
    compare_flags.check(args)
    out = Path(args.out or _only(args.sweeps))

    import numpy as np

    from bdqn.report import compare, figures, grid, tables
    from bdqn.report.runs import compare_runs

    places = runs_at(args.sweeps)
    with user_errors():
        comparison = compare_runs(places)
    for remark in comparison.remarks:
        say(f"note: {remark}")
    if not comparison.results:
        why = f" ({comparison.remarks[0]})" if comparison.remarks else ""
        raise SettingError(f"{', '.join(args.sweeps)}: no trial has a finished episode yet{why}.")
    baseline = compare_flags.baseline_of(args, comparison.groups)
    for remark in comparison.unpaired(baseline):
        say(f"note: {remark}")
    rng = np.random.default_rng(args.seed)
    found = tables.all_tables(comparison, baseline, rng, args.level)
    caution = compare.caution(comparison.results)
    drawn = {"published": _published(places, args.seed, args.level)} if args.published else {}
    for line in _lines(found, caution):
        print(line)
    drawn["curves"] = figures.curves_figure(comparison.results, rng, args.level)
    relative = {kind: tables.relative_scores(comparison, baseline, kind) for kind in compare.SCORES}
    known = {kind: scores for kind, scores in relative.items() if scores}
    if known:
        drawn["profiles"] = figures.profiles_figure(known, baseline, rng, args.level)
    with user_errors():
        out.mkdir(parents=True, exist_ok=True)
        tables.write_rows(out / "tables.csv", (row for table in found for row in table.rows))
        grid.write_latex(out / "tables.tex", (table.grid(caution) for table in found))
        compare.write_results(out, comparison)
        files = figures.save_all(drawn, out, compare_flags.formats_of(args))
    print(f"\n{out}: {', '.join(('tables.csv', 'tables.tex', 'runs.csv', 'curves.csv', *files))}")
    return 0


def _published(places: Sequence[Path], seed: int, level: float) -> Figure:
    """Draw these runs of DeepSea beside published lines, and say what is drawn."""
    import numpy as np

    from bdqn.report.growth import growth_figure, solved_at, solved_by_size
    from bdqn.report.runs import read_runs

    with user_errors():
        records = read_runs(places).records
    solved = solved_by_size((run.env, run.group, solved_at(run.episodes[1])) for run in records)
    if not solved:
        raise SettingError("--published needs runs of DeepSea under ids that name the size, such as bdqn/DeepSea20-v0.")
    figure, sentences = growth_figure(solved, np.random.default_rng(seed), level)
    print()
    for line in (line for sentence in sentences for line in textwrap.wrap(sentence, terminal_width(unknown=120))):
        say(line)
    return figure


def _only(places: Sequence[str]) -> str:
    """Return the default output directory: the only input directory."""
    if len(places) > 1:
        raise SettingError("With several directories, --out DIR is required: where to write tables and curves.")
    from bdqn.report.find import is_run

    if is_run(Path(places[0])):
        raise SettingError(f"{places[0]} is a single run: give several runs, or a directory with several below it.")
    return places[0]


def _lines(found: Sequence[RowTable], caution: str) -> Iterator[str]:
    """Yield the lines of the tables, by environment and score, and a caution about their intervals."""
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
    """Format the number of seeds, if it is the same for all rows."""
    counts = {row.seeds for row in rows}
    return f" ({counts.pop()} seeds)" if len(counts) == 1 else ""


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    """Return the table cells without environment and score, and without seeds if the title has them."""
    from bdqn.report.tables import layout

    shown = [1, *([] if _seeds(rows) else [3])]
    return [[printable(cell) for cell in (*(line[i] for i in shown), *line[4:])] for line in layout(rows)]
