"""Cells of CSV files. Names come from runs, hence from anyone: no spreadsheet may compute them, no terminal obey."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path

from bdqn.storage import atomic
from bdqn.storage.safe_files import printable_lines

# Spreadsheets take cells that start like this for formulas; a leading apostrophe makes them text.
_FORMULA = re.compile(r"['=+\-@\t\r\n]")
# Our own numbers stay as they are, with their intervals: -3.2k (-4.0k to -1.1k; 5 seeds).
_NUMBERS = re.compile(r"[+-](?:[\d.,;%()±+ -]|e[+-]?\d|[kMG]\b|to|of|seeds?|nan|inf)*")


def as_text(cell: object) -> object:
    """A cell that a spreadsheet reads as text or numbers, never as a formula."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBERS.fullmatch(cell):
        return f"'{cell}"
    return cell


def from_text(cell: str) -> str:
    """Undo ``as_text``."""
    return cell.removeprefix("'")


def write_table(path: Path, lines: Iterable[Iterable[object]]) -> None:
    """Write a CSV file, headings first, and replace an existing one."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(map(_cell, line) for line in lines)
    atomic.write_file(path, text.getvalue().encode())


def _cell(cell: object) -> object:
    return as_text(printable_lines(cell) if isinstance(cell, str) else cell)
