"""Text that fits the terminal: lines that break between words, and columns that stay columns."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence


def terminal_width() -> int:
    """Columns that a line may take: those of the terminal, or what COLUMNS says; 80 where there is neither."""
    return shutil.get_terminal_size().columns


def fold(line: str, width: int | None = None, hang: int | None = None) -> list[str]:
    """A line as lines that fit. They begin below its second column, where two spaces part one from the first."""
    if hang is None:
        columns = re.match(r" *(- )?(\S+( \S+)*  +)?", line)
        hang = columns.end() if columns else 0
    return textwrap.wrap(
        line,
        terminal_width() if width is None else width,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def listed(meanings: Mapping[str, str], indent: int = 2) -> list[str]:
    """Names and what they mean, one line each, in two columns; to be folded."""
    column = max(map(len, meanings), default=0)
    return [f"{'':{indent}}{name:<{column}}  {meaning}".rstrip() for name, meaning in meanings.items()]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns. Where they are wider than the terminal, the last column is folded; where that does not help,
    first cells stand on lines of their own."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    before_last = sum(widths[:-1]) + 2 * len(widths[:-1])
    lines = [part for row in rows for part in fold(_joined(row, widths), hang=before_last)]
    if max(map(len, lines)) <= terminal_width():
        return lines
    return [line for row in rows for line in (row[0], "    " + _joined(row[1:], widths[1:])) if line.strip()]


def print_folded(lines: Iterable[str]) -> None:
    for line in lines:
        print("\n".join(fold(line)))


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
