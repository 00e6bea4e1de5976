"""A report on runs: one self-contained page, and its tables as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bdqn.report import summary
from bdqn.report.grid import Grid
from bdqn.report.html import page, tag
from bdqn.report.paper import reproduction
from bdqn.report.runs import Runs

FEW = 5  # remarks that are shown unfolded


@dataclass(frozen=True)
class Report:
    """The page and all of its tables."""

    html: str
    tables: tuple[Grid, ...]

    def write_tables(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for table in self.tables:
            table.write(folder)


def make_report(
    runs: Runs, *, title: str | None = None, paper: bool = False, seed: int = 0, baseline: str | None = None
) -> Report:
    """Make the report of these runs; with ``paper``, add the paper's tables and figures beside ours.

    The other groups are compared with ``baseline``, by default the first group.
    """
    title = title or _several(runs.envs)
    rng = np.random.default_rng(seed)  # for intervals: the same runs give the same page
    curves = summary.learning_curves(runs, rng)
    scores, recorded = summary.score_grid(runs, rng), runs.with_details
    pairs = summary.pair_grids(runs, baseline or runs.groups[0], np.random.default_rng(seed))
    settings = [summary.settings_grid(recorded)] if recorded.records else []
    provenance = summary.provenance_grids(recorded) if recorded.records else []
    how_sure = [table for table in [summary.coverage_grid(runs)] if table is not None]
    papers = reproduction.tables(runs, rng) if paper else []
    sections = [
        curves,
        summary.section("Scores", scores.html(), *map(summary.folded, pairs)),
        summary.section(
            "Settings",
            *(part for table in settings for part in summary.settings_html(table)),
            lead=summary.not_in_files(runs),
        ),
        summary.diagnostics(runs, rng),
        *(summary.section(table.title, table.html()) for table in how_sure),
        reproduction.paper_section(runs, papers, rng) if paper else None,
        summary.section("Provenance", *map(summary.folded, provenance), lead=summary.not_in_files(runs)),
    ]
    notes = tag("ul", *(tag("li", remark) for remark in runs.remarks))
    many = len(runs.remarks) > FEW
    folded = tag("details", tag("summary", f"{len(runs.remarks)} remarks on missing or unfinished runs"), notes)
    remarks = tag("div", folded if many else notes, class_="remarks") if runs.remarks else ""
    total = f"{len(runs.records)} run{'s' * (len(runs.records) > 1)}"
    counts = f"{total} of {_several(runs.groups)} on {_several(runs.envs)}"
    header = tag(
        "header", tag("p", "bdqn report: Bayesian DQN", class_="kicker"), tag("h1", title), tag("p", counts), remarks
    )
    body = tag("main", header, *(part for part in sections if part is not None))
    return Report(
        page(title, body, scripts=("report.js",)), (scores, *pairs, *settings, *how_sure, *provenance, *papers)
    )


def _several(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
