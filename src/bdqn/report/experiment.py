"""What the analyses of experiments share: results checked against their sweep file, tables and figures on a page.

EXPERIMENT/sweep.toml      what is run; there may be other sweep files beside it
EXPERIMENT/results/        what `bdqn compare --out` kept of it (of another file, NAME.toml: results/NAME/), and the
                           page and figures that analysis.py makes of that; of a scale, such as quick: results/quick/
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType

import numpy as np
from matplotlib.figure import Figure

from bdqn.config.settings import SettingError
from bdqn.report.compare import SCORES, Comparison, comparison_of, label_of, read_results, unfinished
from bdqn.report.figures import Points, curves_figure, save, settings_figure
from bdqn.report.tables import Row, all_tables, layout
from bdqn.sweep.plan import FULL, Sweep, read_sweep

PAGE = "tables.md"
FEWEST = 5  # seeds that can tell anything: an interval of two misses the truth every other time, of five in one of six
Lines = Mapping[str, Mapping[str, str]]  # of a figure: name of a line -> value of the setting -> group


@dataclass(frozen=True)
class Study:
    """A sweep, and what is known of it so far."""

    sweep: Sweep
    found: Comparison


class Page:
    """Text, tables and figures of an experiment, made of its results alone."""

    def __init__(self, script: str, made_by: str = "bdqn compare --out") -> None:
        """``script`` is the experiment's analysis.py; which results it is about is asked of the command line.

        ``made_by`` is the command that writes such results.
        """
        self.folder = Path(script).resolve().parent
        parser = argparse.ArgumentParser(description=f"Redraw {self.folder.name} from its results, without training.")
        parser.add_argument("--results", type=Path, help=f"what {made_by} has written [{self.folder / 'results'}]")
        parser.add_argument("--scale", default=FULL, help="the scale at which it was run, such as quick [%(default)s]")
        parser.add_argument("--out", type=Path, help="where the page and figures go [beside the results]")
        args = parser.parse_args()
        kept = self.folder / "results" / ("" if args.scale == FULL else args.scale)
        if args.results and not args.results.is_dir():
            parser.error(f"{args.results} does not exist: give the directory that {made_by} has written.")
        if args.scale != FULL and not (args.results or kept.is_dir()):
            parser.error(f"no results of scale {args.scale} are kept in {kept}: give yours by --results DIR.")
        self.results: Path = args.results or kept
        self.scale: str = args.scale
        self.out: Path = args.out or self.results
        self.rng = np.random.default_rng(0)  # the same results give the same page
        self._parts: list[str] = []

    def read(self, sweep: str, lengths: Mapping[str, int] | None = None) -> Study:
        """The results of a sweep file; every trial of it that is missing or unfinished is named on the page.

        Those of sweep.toml are kept in the results' directory, those of NAME.toml in its directory NAME. ``lengths``
        are the decisions that environments are meant to have, where these are fewer than the file's.
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
        if sentences:
            self.say("\n".join(f"- {sentence}" for sentence in sentences))

    def table(self, rows: Sequence[Row]) -> None:
        self.cells(layout(rows))

    def cells(self, lines: Sequence[Sequence[str]]) -> None:
        """A table; its first line are the headings."""
        headings, *rest = [[cell.replace("|", r"\|") for cell in line] for line in lines]
        rule = ["---"] * len(headings)
        self.say("\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rest)))

    def runs(self, found: Comparison) -> None:
        """Every run by itself: what there is to show where seeds are too few for an interval."""
        if found.results:
            lines = [["environment", "group", "seed", "decisions", *SCORES]]
            for result in found.results:
                scores = (getattr(result, kind) for kind in SCORES)
                cells = ("-" if np.isnan(score) else f"{score:,.2f}" for score in scores)
                lines.append([result.env, result.group, str(result.seed), f"{result.decisions:,}", *cells])
            self.cells(lines)

    def compare(self, found: Comparison, baseline: str, level: float = 0.95) -> list[Row]:
        """Every table of a comparison; gives all of their rows."""
        self.points(found.unpaired(baseline))
        tables = all_tables(found, baseline, self.rng, level)
        for table in tables:
            self.say(f"{table.title}:")
            self.table(table.rows)
        return [row for table in tables for row in table.rows]

    def curves(self, name: str, found: Comparison, level: float = 0.95) -> None:
        """Learning curves with bands."""
        if found.results:
            self.figure(name, curves_figure(found.results, self.rng, level))

    def settings(self, name: str, rows: Sequence[Row], lines: Lines, xlabel: str) -> None:
        """Means over the values of a setting, as far as ``rows`` have them; ``lines`` says whose, and at which."""
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
        """Put the page beside its figures, and show it."""
        text = "\n\n".join(self._parts) + "\n"
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / PAGE).write_text(text, encoding="utf-8")
        print(text)


def read_study(
    file: Path, results: Path, scale: str = FULL, lengths: Mapping[str, int] = MappingProxyType({})
) -> Study:
    """A sweep file at a scale, and what `bdqn compare` kept of its trials.

    Trials that are missing or unfinished are named. Results of trials that the file does not name are left out, and
    named too: they answer another question.
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
            remarks.append(f"{env}: scores are over {end:,} decisions, where this scale has {sweep.steps:,}.")
    for label in sorted(known.difference(planned)):
        remarks.append(f"{label} is not part of {file.name}, and left out.")
    return Study(sweep, comparison_of(kept, remarks))


def part_of(found: Comparison, groups: Sequence[str]) -> Comparison:
    """The runs of some groups."""
    return Comparison(tuple(result for result in found.results if result.group in groups), ())


def of_statistic(rows: Sequence[Row], statistic: str, score: str = "area") -> list[Row]:
    """How groups stand to their baseline in a score: by ``ratio``, or by ``difference``."""
    return [row for row in rows if (row.score, row.statistic) == (score, statistic)]


def side(row: Row) -> int:
    """1 or -1 where an interval lies above or below what no effect would give; 0 where that cannot be told."""
    nothing = _nothing(row)
    return 0 if row.seeds < FEWEST else int(row.low > nothing) - int(row.high < nothing)


def verdict(row: Row) -> str:
    """A figure with what its interval says."""
    few = f"{row.seeds} seeds, too few to tell"
    told = few if row.seeds < FEWEST else f"{('not told from', 'above', 'below')[side(row)]} {_nothing(row)}"
    return f"{row.estimate:.3f} ({row.low:.3f} to {row.high:.3f}), {told}"


def _nothing(row: Row) -> int:
    """What a figure is where nothing differs."""
    return 1 if row.statistic == "ratio" else 0
