"""CSV files that grow by complete rows, survive a full disk, and can be truncated to an earlier row."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bdqn.config.settings import SettingError
from bdqn.storage import safe_files


class Table:
    """A CSV file that grows by complete rows. Floats are written exactly, None as an empty cell."""

    def __init__(self, path: Path, columns: Sequence[str], heading: str = "", rows: int = 0) -> None:
        """Start a table, or continue one after its first ``rows`` rows. The first flush truncates the rest."""
        self.path, self.rows = path, rows
        self.columns = columns
        self._pending = io.StringIO(newline="")
        self._writer = csv.writer(self._pending, lineterminator="\n")
        self._unwritten = b""
        self._file: int | None = None
        self._lines_kept = rows + 1 + heading.count("\n") if rows else 0
        if not rows:
            self._pending.write(heading)
            self._writer.writerow(columns)

    def add(self, *cells: Any) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"{self.path} has {len(self.columns)} columns, not {len(cells)}.")
        self._writer.writerow(cells)
        self.rows += 1

    def flush(self) -> None:
        """Write pending rows. What a full disk refuses is kept for the next flush."""
        self._unwritten += self._pending.getvalue().encode()
        self._pending.seek(0)
        self._pending.truncate()
        file = self._opened()
        while self._unwritten:
            self._unwritten = self._unwritten[os.write(file, self._unwritten) :]

    def sync(self) -> None:
        """Write pending rows and sync the file to disk."""
        self.flush()
        os.fsync(self._opened())

    @property
    def is_in_place(self) -> bool:
        """Whether the file is still at its path."""
        try:
            return self._file is None or os.path.samestat(os.fstat(self._file), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def rewrite(self, path: Path) -> None:
        """Write the whole table to ``path``. A removed file stays readable until it is closed."""
        if self._file is not None:
            self._unwritten = os.pread(self._file, os.fstat(self._file).st_size, 0) + self._unwritten
            os.close(self._file)
        self.path, self._file, self._lines_kept = path, None, 0
        self.flush()

    def close(self) -> None:
        try:
            self.flush()
        finally:
            if self._file is not None:
                os.close(self._file)

    def _opened(self) -> int:
        """Open the file when first needed, and retry later if that fails, so a full disk loses no row."""
        if self._file is None:
            end = end_of_line(self.path, self._lines_kept) if self._lines_kept else 0
            if end is None:
                raise SettingError(f"{self.path} was changed while the run was resumed: rows were removed.")
            file = safe_files.open_to_write(self.path)
            try:
                os.ftruncate(file, end)
                os.lseek(file, 0, os.SEEK_END)
            except OSError:
                os.close(file)
                raise
            self._file = file
        return self._file


def columns_of(path: Path) -> list[str]:
    """Read the column names of a table that starts with them."""
    return next(safe_files.lines(path), "").rstrip("\n").split(",")


def end_of_line(path: Path, count: int) -> int | None:
    """Return the offset of the end of line ``count``, or None if the file has fewer complete lines."""
    with safe_files.open_to_read(path, safe_files.TABLE) as file:
        for _ in range(count):
            if not file.readline(safe_files.LINE).endswith(b"\n"):
                return None
        return file.tell()
