"""``bdqn report``: an HTML report about runs, optionally beside the paper's tables."""

from __future__ import annotations

from pathlib import Path

from bdqn.cli import compare_flags
from bdqn.cli.common import runs_at, say, user_errors
from bdqn.cli.options import Parser
from bdqn.config.settings import SettingError
from bdqn.storage import atomic


def run(argv: list[str]) -> int:
    """Read the runs, write the page and report what is missing."""
    parser = Parser(
        prog="bdqn report",
        description="Write a self-contained HTML report about runs: curves, scores, settings, posteriors, provenance.",
    )
    parser.add_argument(
        "runs",
        metavar="RUNS",
        nargs="+",
        help="directories of sweeps or runs, with such directories below them, or written by bdqn compare",
    )
    parser.add_argument("--out", metavar="FILE", default="report.html", help="the HTML file [%(default)s]")
    parser.add_argument("--paper", action="store_true", help="add the paper's tables and figures beside these results")
    parser.add_argument("--tables", metavar="DIR", help="also write every table as CSV, Markdown and LaTeX")
    parser.add_argument("--figures", metavar="DIR", help="also write the learning curves as figures")
    parser.add_argument("--title", help="title of the page [the environments]")
    compare_flags.add_flags(parser)
    args = parser.parse(argv)
    compare_flags.check(args)

    import numpy as np

    from bdqn.report.figures import curves_figure, save_all
    from bdqn.report.report import make_report
    from bdqn.report.runs import read_runs

    with user_errors():
        found = read_runs(runs_at(args.runs))
    for remark in found.remarks:
        say(f"note: {remark}")
    if not found.records:
        raise SettingError(f"{', '.join(args.runs)}: no run has a finished episode yet.")
    baseline = compare_flags.baseline_of(args, found.groups)
    made = make_report(found, title=args.title, paper=args.paper, seed=args.seed, baseline=baseline)
    out = Path(args.out)
    with user_errors():
        out.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_output(out, made.html)
        if args.tables:
            made.write_tables(Path(args.tables))
    print(f"{out}: {len(found.records)} run{'s' * (len(found.records) > 1)}, {len(made.html) / 1e3:,.0f} kB")
    if args.tables:
        print(f"{args.tables}: {', '.join(table.name for table in made.tables)} as .csv, .md and .tex")
    if args.figures:
        curves = curves_figure(found.records, np.random.default_rng(args.seed))
        with user_errors():
            files = save_all({"curves": curves}, Path(args.figures), compare_flags.formats_of(args))
        print(f"{args.figures}: {', '.join(files)}")
    return 0
