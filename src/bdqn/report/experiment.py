"""Shared by the analyses of experiments: results checked against their sweep file, and a page of tables and figures.

- EXPERIMENT/sweep.toml: what to run; there may be other sweep files.
- EXPERIMENT/results/: what `bdqn compare --out` stored (for another file, NAME.toml: results/NAME/), and the page and
  figures that analysis.py makes from it; for a scale, such as quick: results/quick/.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from textwrap import TextWrapper
from types import MappingProxyType

import numpy as np
from matplotlib.figure import Figure

from bdqn.config.settings import SettingError
from bdqn.report.collect import read_rows
from bdqn.report.compare import SCORES, Comparison, comparison_of, label_of, read_results, unfinished
from bdqn.report.figures import Points, curves_figure, save, settings_figure
from bdqn.report.tables import Row, all_tables, layout
from bdqn.storage import atomic
from bdqn.sweep.plan import FULL, Sweep, read_sweep

PAGE = "tables.md"
FEWEST = 5  # seeds for a verdict: an interval of two seeds misses the truth every other time, of five once in six
_POINT = TextWrapper(120, "- ", "  ", break_long_words=False, break_on_hyphens=False)
Lines = Mapping[str, Mapping[str, str]]  # in a figure: name of a line -> value of the setting -> group


@dataclass(frozen=True)
class Study:
    """A sweep and its results so far."""

    sweep: Sweep
    found: Comparison


class Page:
    """Text, tables and figures of an experiment, made from its results alone."""

    def __init__(self, script: str, made_by: str = "bdqn compare --out") -> None:
        """``script`` is the experiment's analysis.py; the command line selects the results.

        ``made_by`` is the command that writes such results.
        """
        self.folder = Path(script).resolve().parent
        parser = argparse.ArgumentParser(description=f"Redraw {self.folder.name} from its results, without training.")
        parser.add_argument("--results", type=Path, help=f"directory that {made_by} wrote [{self.folder / 'results'}]")
        parser.add_argument("--scale", default=FULL, help="scale of the runs, such as quick [%(default)s]")
        parser.add_argument("--out", type=Path, help="directory for the page and figures [beside the results]")
        args = parser.parse_args()
        kept = self.folder / "results" / ("" if args.scale == FULL else args.scale)
        if args.results and not args.results.is_dir():
            parser.error(f"{args.results} does not exist: give the directory that {made_by} wrote.")
        if args.scale != FULL and not (args.results or kept.is_dir()):
            parser.error(f"there are no results of scale {args.scale} in {kept}: give yours with --results DIR.")
        self.results: Path = args.results or kept
        self.scale: str = args.scale
        self.out: Path = args.out or self.results
        self.rng = np.random.default_rng(0)  # the same results give the same page
        self._parts: list[str] = []

    def read(self, sweep: str, lengths: Mapping[str, int] | None = None) -> Study:
        """Read the results of a sweep file; the page names every trial that is missing or unfinished.

        Results of sweep.toml are in the results' directory, those of NAME.toml in its directory NAME. ``lengths`` gives
        the planned decisions of environments that have fewer than the file's.
        """
        file = self.folder / sweep
        results = self.results if file.stem == "sweep" else self.results / file.stem
        try:
            study = read_study(file, results, self.scale, lengths or {})
        except SettingError as error:
            raise SystemExit(str(error)) from error
        self.points(study.found.remarks)
        return study

    def say(self, text: str) -> None:
        self._parts.append(text)

    def points(self, sentences: Sequence[str]) -> None:
        """Add a list, in lines of the width of a page."""
        if sentences:
            self.say("\n".join(_POINT.fill(sentence) for sentence in sentences))

    def table(self, rows: Sequence[Row]) -> None:
        self.cells(layout(rows))

    def cells(self, lines: Sequence[Sequence[str]]) -> None:
        """Add a table; the first line contains the headings."""
        headings, *rest = [[cell.replace("|", r"\|") for cell in line] for line in lines]
        rule = ["---"] * len(headings)
        self.say("\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rest)))

    def runs(self, found: Comparison) -> None:
        """Add a table of single runs, for results with too few seeds for an interval."""
        if found.results:
            lines = [["environment", "group", "seed", "decisions", *SCORES]]
            for result in found.results:
                scores = (getattr(result, kind) for kind in SCORES)
                cells = ("-" if np.isnan(score) else f"{score:,.2f}" for score in scores)
                lines.append([result.env, result.group, str(result.seed), f"{result.decisions:,}", *cells])
            self.cells(lines)

    def episodes(self, kept: str, envs: Sequence[str], groups: Sequence[str]) -> None:
        """Add a table of what the exploration suite's collect.py kept: when each run found something, and solved it."""
        rows = sorted(read_rows(self.results / kept), key=lambda row: int(row["seed"]))
        lines = [["environment", "agent", "first found in episode", "solved in episode", "episodes in all"]]
        for env, group in product(envs, groups):
            mine = [row for row in rows if (row["env"], row["group"]) == (env, group)]
            if mine:
                cells = (", ".join(row[name] or "-" for row in mine) for name in ("first", "solved", "episodes"))
                lines.append([short(env), group, *cells])
        if len(lines) > 1:
            self.say(
                "Episodes, one number per seed. Found: an episode with a quarter of the optimum. Solved: 20 in a row "
                "that\naverage 80 % of it."
            )
            self.cells(lines)

    def compare(self, found: Comparison, baseline: str, level: float = 0.95) -> list[Row]:
        """Add all tables of a comparison and return their rows."""
        self.points(found.unpaired(baseline))
        tables = all_tables(found, baseline, self.rng, level)
        for table in tables:
            self.say(f"{table.title}:")
            self.table(table.rows)
        return [row for table in tables for row in table.rows]

    def curves(self, name: str, found: Comparison, level: float = 0.95) -> None:
        """Add a figure of learning curves with bands."""
        if found.results:
            self.figure(name, curves_figure(found.results, self.rng, level))

    def settings(self, name: str, rows: Sequence[Row], lines: Lines, xlabel: str) -> None:
        """Add a figure of means over the values of a setting. ``lines`` names the groups; unknown means are skipped."""
        known = {(row.env, row.score, row.group): row for row in rows if (row.baseline, row.statistic) == ("", "mean")}
        panels: dict[str, dict[str, Points]] = {}
        for env, score in product(dict.fromkeys(row.env for row in rows), SCORES):
            for line, groups in lines.items():
                mine = {x: known[env, score, group] for x, group in groups.items() if (env, score, group) in known}
                if mine:
                    points = {x: (row.estimate, row.low, row.high) for x, row in mine.items()}
                    panels.setdefault(f"{env}, {score}", {})[line] = points
        if panels:
            self.figure(name, settings_figure(panels, xlabel, "return"))

    def figure(self, name: str, figure: Figure) -> None:
        save(figure, self.out / name)
        self.say(f"![{Path(name).stem}]({name})")

    def write(self) -> None:
        """Write the page beside its figures, and print it."""
        text = "\n\n".join(self._parts) + "\n"
        self.out.mkdir(parents=True, exist_ok=True)
        atomic.write_file(self.out / PAGE, text.encode())
        print(text)


def short(env: str) -> str:
    """An environment's id without our namespace and its version."""
    return env.removeprefix("bdqn/").rpartition("-v")[0]


def read_study(
    file: Path, results: Path, scale: str = FULL, lengths: Mapping[str, int] = MappingProxyType({})
) -> Study:
    """Read a sweep file at a scale, and the results that `bdqn compare` stored.

    Remarks name the trials that are missing or unfinished. Results of trials that are not in the file are left out, and
    named too.
    """
    sweep = read_sweep(file, scale)
    found = read_results(results) if (results / "runs.csv").exists() else Comparison((), ())
    planned = [label_of(trial.group, trial.env, trial.seed) for trial in sweep.trials]
    known = {result.label for result in found.results}
    if not known:
        return Study(sweep, Comparison((), (f"None of the {len(planned)} trials of {file.name} has results yet.",)))
    remarks = [f"{label} is missing." for label in planned if label not in known]
    kept = tuple(result for result in found.results if result.label in planned)
    for result in kept:
        remarks += unfinished(result.label, result.decisions, lengths.get(result.env, sweep.steps))
    for env, end in {(result.env, round(float(result.step[-1]))): None for result in kept}:
        if end > sweep.steps:
            remarks.append(f"{env}: scores cover {end:,} decisions, but this scale has {sweep.steps:,}.")
    for label in sorted(known.difference(planned)):
        remarks.append(f"{label} is not part of {file.name} and is left out.")
    return Study(sweep, comparison_of(kept, remarks))


def part_of(found: Comparison, groups: Sequence[str]) -> Comparison:
    """The runs of some groups."""
    return Comparison(tuple(result for result in found.results if result.group in groups), ())


def of_statistic(rows: Sequence[Row], statistic: str, score: str = "area") -> list[Row]:
    """The rows of one score that compare groups with their baseline, by ``ratio`` or ``difference``."""
    return [row for row in rows if (row.score, row.statistic) == (score, statistic)]


def side(row: Row) -> int:
    """1 or -1 if an interval lies above or below the value of no effect; otherwise 0."""
    null = _no_effect(row)
    return 0 if row.seeds < FEWEST else int(row.low > null) - int(row.high < null)


def verdict(row: Row) -> str:
    """An estimate, its interval, and on which side of no effect it lies."""
    few = f"{row.seeds} seeds, too few to tell"
    where = ("not distinguishable from", "above", "below")[side(row)]
    conclusion = few if row.seeds < FEWEST else f"{where} {_no_effect(row)}"
    return f"{row.estimate:.3f} ({row.low:.3f} to {row.high:.3f}), {conclusion}"


def _no_effect(row: Row) -> int:
    """The value of a statistic if nothing differs."""
    return 1 if row.statistic == "ratio" else 0
