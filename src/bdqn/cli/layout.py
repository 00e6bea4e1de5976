"""Text that fits the terminal: wrapped lines and aligned columns."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence


def terminal_width(unknown: int = 80) -> int:
    """Return the width from COLUMNS or the terminal, or ``unknown`` without either."""
    return shutil.get_terminal_size((unknown, 24)).columns


def fold(line: str, width: int | None = None, hang: int | None = None) -> list[str]:
    """Wrap a line. Continuation lines align with its second column, if two spaces separate one from the first."""
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
    """Format names and descriptions in two columns, one line each, before folding."""
    column = max(map(len, meanings), default=0)
    return [f"{'':{indent}}{name:<{column}}  {meaning}".rstrip() for name, meaning in meanings.items()]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows in columns. If they are too wide, fold the last column; if that does not suffice, put the first cell
    of each row on its own line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    before_last = sum(widths[:-1]) + 2 * len(widths[:-1])
    lines = [part for row in rows for part in fold(_joined(row, widths), hang=before_last)]
    if max(map(len, lines)) <= terminal_width():
        return lines
    return [line for row in rows for line in (row[0], "    " + _joined(row[1:], widths[1:])) if line.strip()]


def split_table(rows: Sequence[Sequence[str]], keys: int, room: int) -> Iterator[str]:
    """Format rows in columns, header first. Columns that do not fit follow below, after the first ``keys`` again."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, chosen in enumerate(_side_by_side(widths, keys, room)):
        if number:
            yield ""
        for row in rows:
            yield _joined([row[i] for i in chosen], [widths[i] for i in chosen])


def _side_by_side(widths: Sequence[int], keys: int, room: int) -> list[list[int]]:
    """Group columns that fit side by side, at least one per group."""
    blocks: list[list[int]] = []
    for column in range(keys, len(widths)):
        wider = [*blocks[-1], column] if blocks else []
        if wider and sum(widths[i] + 2 for i in wider) - 2 <= room:
            blocks[-1] = wider
        else:
            blocks.append([*range(keys), column])
    return blocks


def print_folded(lines: Iterable[str]) -> None:
    for line in lines:
        print("\n".join(fold(line)))


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
