"""Pages of experiments that have studies (`studies`): tables read, panels drawn, one section per study or two."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bdqn.report.experiment import Page
from bdqn.report.figures import name_axes
from bdqn.report.studies import MARK

Row = dict[str, str]
Sections = Mapping[str, tuple[Callable[[Page], None], tuple[str, ...]]]  # what draws them, and of which tables


def read_scale(page: Page) -> Mapping[str, Any]:
    """How much was run for these results; they are of the scale that was asked for, or nothing is drawn."""
    mark = page.results / MARK
    if not mark.exists():
        raise SystemExit(f"{mark} does not exist: nothing was run there. Give the directory that run.py has written.")
    scale = tomllib.loads(mark.read_text(encoding="utf-8"))
    if scale["name"] != page.scale:
        raise SystemExit(f"{page.results} holds results of scale {scale['name']}: say --scale {scale['name']}.")
    return scale


def read(page: Page, study: str) -> list[Row]:
    with (page.results / f"{study}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def episodes(page: Page, study: str) -> str:
    """How many were run."""
    return f"{read_scale(page)['episodes'][study]:,}"


def names(rows: Sequence[Row], column: str) -> list[str]:
    """The values of a column, each once, in their order."""
    return list(dict.fromkeys(row[column] for row in rows))


def where(rows: Sequence[Row], **values: str) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if values.items() <= row.items()]


def column(rows: Sequence[Row], name: str) -> NDArray[np.float64]:
    return np.array([float(row[name] or "nan") for row in rows])


def slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Of log y in log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def panels(count: int, height: float = 3.8) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(4.6 * count, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, count)))


def finish(axes: Axes, title: str, x: str, y: str, *, log: str = "", legend: bool = True) -> None:
    axes.set_title(title, fontsize=10)
    name_axes(axes, x, y)
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    if legend:
        axes.legend(frameon=False, loc="best", fontsize=7)


def draw_with_band(axes: Axes, rows: Sequence[Row], x: str, color: str, label: str, marker: str = "") -> None:
    at = column(rows, x)
    axes.plot(at, column(rows, "regret"), color=color, label=label, marker=marker)
    axes.fill_between(at, column(rows, "low"), column(rows, "high"), color=color, alpha=0.2, linewidth=0)


def write_page(script: str, heading: str, instances_for: str, sections: Sections) -> None:
    """Write the page of the experiment whose analysis.py is ``script``."""
    page = Page(script, made_by="run.py --out")
    scale = read_scale(page)
    page.say(f"# {heading}")
    page.say(f"Scale {scale['name']}: {scale['seeds']} seeds, {scale['instances']} instances for {instances_for}.")
    for title, (draw, studies) in sections.items():
        page.say(f"## {title}")
        missing = [study for study in studies if not (page.results / f"{study}.csv").exists()]
        page.points([f"{study} has not been run yet." for study in missing])
        if not missing:
            draw(page)
    page.write()
