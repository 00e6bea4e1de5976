"""Tables that can be written as HTML, CSV, Markdown or LaTeX: text for readers, numbers for programs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from bdqn.report.cells import write_table
from bdqn.report.html import Html, tag
from bdqn.storage import atomic
from bdqn.storage.safe_files import printable_lines

MISSING = "missing"  # a cell that needs more runs
NO_RATIO = "no ratio"  # a ratio whose scores are not positive
DASH = "-"  # an unknown value
INSTEAD_OF_NUMBERS = (MISSING, NO_RATIO)
NUMERIC = re.compile(r"-?[\d.,]+[kMG%]?( \(.*\))?|-|")
INTERVAL = ("", "_low", "_high")  # suffixes of an estimate's columns in a CSV file
NEGATIVE = re.compile(r"(?<![\w.)])-(?=[\d.])")
FITTED = r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"  # no wider than the text
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "ε": r"$\varepsilon$",
    "σ": r"$\sigma$",
    "−": "$-$",
    # After the end of a line, LaTeX would read these as part of its command.
    "[": "{[}",
    "*": "{*}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


class Column(str):
    """A heading. In a CSV file it can stand for several named columns of numbers instead of one column of text."""

    names: tuple[str, ...]

    def __new__(cls, title: str, names: Iterable[str] = ()) -> Self:
        made = super().__new__(cls, title)
        made.names = tuple(names)
        return made

    @classmethod
    def estimate(cls, title: str, name: str, *more: str) -> Self:
        """A column of estimates with intervals, and with further numbers named by ``more``."""
        return cls(title, (f"{name}{part}" for part in (*INTERVAL, *(f"_{part}" for part in more))))


class Cell(str):
    """Text for readers, and its numbers: one for each name of its column."""

    numbers: tuple[float, ...]

    def __new__(cls, text: str, *numbers: float) -> Self:
        made = super().__new__(cls, text)
        made.numbers = numbers
        return made


@dataclass(frozen=True)
class Grid:
    """A table with a caption and highlighted rows and cells."""

    name: str  # of its files
    title: str
    heading: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    ours: frozenset[int] = frozenset()  # columns filled by our runs
    marked: frozenset[int] = frozenset()  # highlighted rows
    faint: frozenset[int] = frozenset()  # rows highlighted less
    bold: frozenset[tuple[int, int]] = frozenset()  # cells by row and column
    stacks: bool = False  # on a narrow screen each row becomes a card; for tables with few columns

    def part(self, rows: Sequence[int], name: str, title: str, note: str = "") -> Grid:
        """A table of some of the rows."""
        places = {row: place for place, row in enumerate(rows)}
        return replace(
            self,
            name=name,
            title=title,
            note=note,
            rows=tuple(self.rows[row] for row in rows),
            marked=frozenset(places[row] for row in self.marked & places.keys()),
            faint=frozenset(places[row] for row in self.faint & places.keys()),
            bold=frozenset((places[row], column) for row, column in self.bold if row in places),
        )

    def html(self) -> Html:
        """The table with its caption; a wide one scrolls sideways."""
        columns = range(len(self.heading))
        numeric = {i for i in columns if i and all(_is_numeric(row[i]) for row in self.rows)}

        def style(column: int, text: str = "") -> str | None:
            names = [("n", column in numeric), ("ours", column in self.ours), ("missing", text in INSTEAD_OF_NUMBERS)]
            return " ".join(name for name, holds in names if holds) or None

        def cell(row: int, column: int) -> Html:
            label = self.heading[column] if self.stacks else None
            return tag("td", self._strong(row, column), class_=style(column, self.rows[row][column]), data_label=label)

        head = tag("tr", *(tag("th", self.heading[i], scope="col", class_=style(i)) for i in columns))
        body = [
            tag(
                "tr",
                tag("th", row[0], scope="row"),
                *(cell(number, i) for i in columns[1:]),
                class_=self._mark(number) or None,
            )
            for number, row in enumerate(self.rows)
        ]
        table = tag("table", tag("thead", head), tag("tbody", *body), class_="stacks" if self.stacks else None)
        caption = tag("figcaption", tag("strong", self.title), *([" ", self.note] if self.note else []))
        scroller = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=self.title)
        return tag("figure", caption, scroller, id=self.name)

    def markdown(self) -> str:
        heading, *rows = self._with_marks(self._lines(_markdown, "**{}**".format))
        table = "\n".join(f"| {' | '.join(line)} |" for line in (heading, ["---"] * len(heading), *rows))
        return printable_lines(f"**{self.title}** {self.note}".strip() + f"\n\n{table}\n")

    def latex(self) -> str:
        """A table for a paper, with booktabs rules. Columns without any known value are left out."""
        heading, *rows = self._lines(_latex, r"\textbf{{{}}}".format)
        marked = [[f"{row[0]}$^{{*}}$" if i in self.marked else row[0], *row[1:]] for i, row in enumerate(rows)]
        known = [i for i in range(len(heading)) if not i or any(row[i] != DASH for row in self.rows)]
        numeric = {i for i in known if i and all(_is_numeric(row[i]) for row in self.rows)}
        lines = (" & ".join(line[i] for i in known) + r" \\" for line in (heading, *marked))
        texts = (self.title if self.title.endswith(".") else f"{self.title}.", self.note)
        legend = [r"$^{*}$: marked."] if self.marked else []
        caption = " ".join([*(_latex(text) for text in texts if text), *legend])
        parts = [
            r"\begin{table}",
            r"  \centering\small",
            rf"  \caption{{{caption}}}",
            rf"  \label{{tab:{self.name}}}",
            FITTED,
            rf"  \begin{{tabular}}{{{''.join('r' if i in numeric else 'l' for i in known)}}}",
            r"    \toprule",
            f"    {next(lines)}",
            r"    \midrule",
            *(f"    {line}" for line in lines),
            r"    \bottomrule",
            r"  \end{tabular}}",
            r"\end{table}",
        ]
        return "\n".join(parts) + "\n"

    def csv_lines(self) -> list[list[str]]:
        """Column names, then rows of numbers and text; unknown values are empty."""
        names = [name for column in self.heading for name in column.names or (column,)]
        rows = ([part for pair in zip(self.heading, row, strict=True) for part in _values(*pair)] for row in self.rows)
        return self._with_marks([names, *rows])

    def write(self, folder: Path) -> None:
        """Write NAME.csv, NAME.md and NAME.tex."""
        write_table(folder / f"{self.name}.csv", self.csv_lines())
        atomic.write_file(folder / f"{self.name}.md", self.markdown().encode())
        write_latex(folder / f"{self.name}.tex", [self])

    def _strong(self, row: int, column: int) -> str:
        text = self.rows[row][column]
        return tag("strong", text) if (row, column) in self.bold else text

    def _lines(self, plain: Callable[[str], str], strong: Callable[[str], str]) -> list[list[str]]:
        """Heading and rows as text."""
        lines = [
            [strong(plain(cell)) if (number, i) in self.bold else plain(cell) for i, cell in enumerate(row)]
            for number, row in enumerate(self.rows)
        ]
        return [[*map(plain, self.heading)], *lines]

    def _with_marks(self, lines: list[list[str]]) -> list[list[str]]:
        """Add a column that names the highlighted rows."""
        marks = ["mark", *map(self._mark, range(len(self.rows)))]
        return [[*line, mark] for line, mark in zip(lines, marks, strict=True)] if any(marks[1:]) else lines

    def _mark(self, row: int) -> str:
        return "marked" if row in self.marked else "faint" if row in self.faint else ""


def grid(name: str, title: str, heading: Iterable[str], rows: Iterable[Iterable[str]], note: str = "") -> Grid:
    """Make a table from cells or plain text."""
    columns = tuple(text if isinstance(text, Column) else Column(text) for text in heading)
    cells = tuple(tuple(text if isinstance(text, Cell) else Cell(text) for text in row) for row in rows)
    return Grid(name, title, columns, cells, note)


def write_latex(path: Path, tables: Iterable[Grid]) -> None:
    """Write tables for a paper into one file."""
    made = "\n".join(table.latex() for table in tables)
    atomic.write_file(path, f"% Needs \\usepackage{{booktabs,graphicx}}.\n{made}".encode())


def _values(column: Column, cell: Cell) -> Iterable[str]:
    """The values of a cell in a CSV file; empty if a column of numbers has only words."""
    if not (column.names or cell.numbers):
        return [cell]
    numbers = cell.numbers or [math.nan] * len(column.names)
    if len(numbers) != len(column.names or (column,)):
        raise ValueError(f"{cell!r} has {len(numbers)} numbers, but {column!r} has the columns {column.names}.")
    return ["" if math.isnan(number) else f"{number:.10g}" for number in numbers]


def _is_numeric(text: str) -> bool:
    return bool(NUMERIC.fullmatch(text)) or text in INSTEAD_OF_NUMBERS


def _markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _latex(text: str) -> str:
    if text == DASH:
        return "--"
    shown = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return "".join(LATEX.get(character, character) for character in NEGATIVE.sub("−", shown))
