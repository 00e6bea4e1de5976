"""Cells of the CSV files that we write. Names come from runs, and so from anybody: none becomes a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path

from bdqn.storage import atomic

# A spreadsheet computes what begins like this; a quotation mark in front makes it a text.
_FORMULA = re.compile(r"['=+\-@\t\r\n]")
# But our own numbers stay as they are, with their intervals: -3.2k (-4.0k to -1.1k; 5 seeds).
_NUMBERS = re.compile(r"[+-](?:[\d.,;%()±+ -]|e[+-]?\d|[kMG]\b|to|of|seeds?|nan|inf)*")


def as_text(cell: object) -> object:
    """A cell that a spreadsheet takes for a text or for numbers, and computes nothing."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBERS.fullmatch(cell):
        return f"'{cell}"
    return cell


def from_text(cell: str) -> str:
    """The text that ``as_text`` was given."""
    return cell.removeprefix("'")


def write_table(path: Path, lines: Iterable[Iterable[object]]) -> None:
    """Write a CSV file, headings and all, in place of whatever stood there."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(map(as_text, line) for line in lines)
    atomic.write_file(path, text.getvalue().encode())
