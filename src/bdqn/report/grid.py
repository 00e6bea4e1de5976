"""One kind of table, written as HTML, CSV, Markdown or LaTeX."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bdqn.report.html import Html, tag

MISSING = "missing"  # what a cell says that waits for a run
NO_RATIO = "no ratio"  # what a cell says where a score is not positive
INSTEAD_OF_NUMBERS = (MISSING, NO_RATIO)
NUMERIC = re.compile(r"-?[\d.,]+[kMG%]?( \(.*\))?|-|")
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "ε": r"$\varepsilon$",
    "σ": r"$\sigma$",
    "−": "$-$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


@dataclass(frozen=True)
class Grid:
    """Cells for a reader, with what should catch the eye."""

    name: str  # of its files
    title: str
    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    ours: frozenset[int] = frozenset()  # columns that our runs fill
    marked: frozenset[int] = frozenset()  # rows to look at
    faint: frozenset[int] = frozenset()  # rows to look at after those
    bold: frozenset[tuple[int, int]] = frozenset()  # cells by row and column, as their source prints them

    def html(self) -> Html:
        """A figure with its caption, which can be scrolled sideways where it is too wide."""
        columns = range(len(self.heading))
        numeric = {i for i in columns if i and all(_is_numeric(row[i]) for row in self.rows)}

        def style(column: int, text: str = "") -> str | None:
            names = [("n", column in numeric), ("ours", column in self.ours), ("missing", text in INSTEAD_OF_NUMBERS)]
            return " ".join(name for name, holds in names if holds) or None

        head = tag("tr", *(tag("th", self.heading[i], scope="col", class_=style(i)) for i in columns))
        body = [
            tag(
                "tr",
                tag("th", row[0], scope="row"),
                *(tag("td", self._strong(number, i), class_=style(i, row[i])) for i in columns[1:]),
                class_=self._mark(number) or None,
            )
            for number, row in enumerate(self.rows)
        ]
        table = tag("table", tag("thead", head), tag("tbody", *body))
        caption = tag("figcaption", tag("strong", self.title), *([" ", self.note] if self.note else []))
        scroller = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=self.title)
        return tag("figure", caption, scroller, id=self.name)

    def markdown(self) -> str:
        heading, *rows = self._lines(_markdown, "**{}**".format)
        table = "\n".join(f"| {' | '.join(line)} |" for line in (heading, ["---"] * len(heading), *rows))
        return f"**{self.title}** {self.note}".strip() + f"\n\n{table}\n"

    def latex(self) -> str:
        """A tabular of the standard kind: it needs no package. Title and note are comments, for a caption."""
        heading, *rows = self._lines(_latex, r"\textbf{{{}}}".format)
        first, *others = (" & ".join(line) + r" \\" for line in (heading, *rows))
        comments = (f"% {' '.join(text.split())}" for text in (self.title, self.note) if text)
        columns = "l" + "r" * (len(heading) - 1)
        tabular = (rf"\begin{{tabular}}{{{columns}}}", first, r"\hline", *others, r"\end{tabular}")
        return "\n".join((*comments, *tabular)) + "\n"

    def write(self, folder: Path) -> None:
        """NAME.csv, NAME.md and NAME.tex."""
        with (folder / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(self._lines(str, str))
        (folder / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        (folder / f"{self.name}.tex").write_text(self.latex(), encoding="utf-8")

    def _strong(self, row: int, column: int) -> str:
        text = self.rows[row][column]
        return tag("strong", text) if (row, column) in self.bold else text

    def _lines(self, plain: Callable[[str], str], strong: Callable[[str], str]) -> list[list[str]]:
        """Heading and rows of a file; what the page colours has a column of its own."""
        lines = [
            [strong(plain(cell)) if (number, i) in self.bold else plain(cell) for i, cell in enumerate(row)]
            for number, row in enumerate(self.rows)
        ]
        found = [[*map(plain, self.heading)], *lines]
        marks = ["mark", *map(self._mark, range(len(lines)))]
        return [[*line, mark] for line, mark in zip(found, marks, strict=True)] if any(marks[1:]) else found

    def _mark(self, row: int) -> str:
        return "marked" if row in self.marked else "faint" if row in self.faint else ""


def grid(name: str, title: str, heading: Iterable[str], rows: Iterable[Iterable[str]], note: str = "") -> Grid:
    return Grid(name, title, tuple(heading), tuple(tuple(row) for row in rows), note)


def _is_numeric(text: str) -> bool:
    return bool(NUMERIC.fullmatch(text)) or text in INSTEAD_OF_NUMBERS


def _markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)
