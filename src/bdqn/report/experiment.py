"""What the analyses of experiments share: results checked against their sweep file, tables and figures on a page.

EXPERIMENT/sweep.toml      what is run
EXPERIMENT/results/        what `bdqn compare --out` kept of it, and the page and figures that analysis.py makes of that
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from bdqn.report.compare import Comparison, comparison_of, label_of, read_results, unfinished
from bdqn.report.figures import curves_figure, save
from bdqn.report.tables import Row, all_rows, layout
from bdqn.sweep.plan import Sweep, read_sweep

PAGE = "tables.md"


@dataclass(frozen=True)
class Study:
    """A sweep, and what is known of it so far."""

    sweep: Sweep
    found: Comparison


class Page:
    """Text, tables and figures of an experiment, made of its results alone."""

    def __init__(self, script: str) -> None:
        """``script`` is the experiment's analysis.py; where the page goes is asked of the command line."""
        self.folder = Path(script).resolve().parent
        parser = argparse.ArgumentParser(description=f"Redraw {self.folder.name} from its results, without training.")
        parser.add_argument("--out", type=Path, default=self.folder / "results", help="where to [%(default)s]")
        self.out: Path = parser.parse_args().out
        self.rng = np.random.default_rng(0)  # the same results give the same page
        self._parts: list[str] = []

    def read(self, sweep: str, results: str = "results") -> Study:
        """The results of a sweep file; every trial of it that is missing or unfinished is named on the page."""
        study = read_study(self.folder / sweep, self.folder / results)
        self.points(study.found.remarks)
        return study

    def say(self, text: str) -> None:
        self._parts.append(text)

    def points(self, sentences: Sequence[str]) -> None:
        if sentences:
            self.say("\n".join(f"- {sentence}" for sentence in sentences))

    def table(self, rows: Sequence[Row]) -> None:
        headings, *lines = layout(rows, lambda cell: str(cell).replace("|", r"\|"))
        rule = ["---"] * len(headings)
        self.say("\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *lines)))

    def compare(self, found: Comparison, baseline: str, level: float = 0.95) -> list[Row]:
        """Every table of a comparison; gives all of their rows."""
        self.points(found.unpaired(baseline))
        tables = all_rows(found, baseline, self.rng, level)
        for title, rows in tables.items():
            self.say(f"{title}:")
            self.table(rows)
        return [row for rows in tables.values() for row in rows]

    def curves(self, name: str, found: Comparison, level: float = 0.95) -> None:
        """Learning curves with bands."""
        if found.results:
            self.figure(name, curves_figure(found.results, self.rng, level))

    def figure(self, name: str, figure: Figure) -> None:
        save(figure, self.out / name)
        self.say(f"![{Path(name).stem}]({name})")

    def write(self) -> None:
        """Put the page beside its figures, and show it."""
        text = "\n\n".join(self._parts) + "\n"
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / PAGE).write_text(text, encoding="utf-8")
        print(text)


def read_study(file: Path, results: Path) -> Study:
    """A sweep file and what `bdqn compare` kept of its trials, with a remark about each that is missing or unfinished.

    Results of trials that the file does not name are left out, and named: they answer another question.
    """
    sweep = read_sweep(file)
    found = read_results(results) if (results / "runs.csv").exists() else Comparison((), ())
    planned = [label_of(trial.group, trial.env, trial.seed) for trial in sweep.trials]
    known = {result.label for result in found.results}
    if not known:
        return Study(sweep, Comparison((), (f"None of the {len(planned)} trials of {file.name} has results yet.",)))
    remarks = [f"{label} is missing." for label in planned if label not in known]
    kept = tuple(result for result in found.results if result.label in planned)
    for result in kept:
        remarks += unfinished(result.label, result.decisions, sweep.steps)
    for label in sorted(known.difference(planned)):
        remarks.append(f"{label} is not part of {file.name}, and left out.")
    return Study(sweep, comparison_of(kept, remarks))
