"""Files of runs, sweeps and saved agents, which may come from anybody: opened as plain files or not at all.

What is inside such a directory is never followed through a link, never waited for as a pipe, and never read beyond a
bound. A path that the user typed may well lead through links: only its last step into a directory's own files may not.
"""

from __future__ import annotations

import csv
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from bdqn.config.memory import free_memory
from bdqn.config.settings import SettingError

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
# The most bytes that are read of each kind of file; what bdqn writes stays far below.
CONFIG = 1 * MB  # config.toml; a sweep or search file
NOTES = 16 * MB  # meta.json, command.txt: they grow when a run is resumed
EVALUATION = 64 * MB  # evaluation-*.json: a number for every episode
TRIALS = 64 * MB  # trials.csv: half a million trials
STUDY = 256 * MB  # study.jsonl
TABLE = 4 * GB  # 50 million decisions with an episode each take 1.5 GB
LINE = 1 * MB  # of a table
LARGE = 64 * MB  # what is larger is compared with the free memory before it is read

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has none: there a link is looked for first
# A pipe without a writer would be waited for; Windows would change the ends of lines.
_PLAINLY = NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


_OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")


class DamagedFile(SettingError):
    """A file that does not hold what bdqn writes there; the message names it."""


class UnsafeFile(DamagedFile, OSError):
    """What is no plain file of a sensible size; the message names it, and says what it is."""


# --- opening ------------------------------------------------------------------------------------------------


def open_to_read(path: Path, at_most: int) -> BinaryIO:
    """A plain file of at most so many bytes."""
    descriptor = _open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        if size > at_most:
            raise UnsafeFile(
                f"{path} has {size:,} bytes where {at_most:,} are expected at most: bdqn has not written it."
            )
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_to_write(path: Path, flags: int = 0) -> int:
    """The descriptor of a plain file that is made if it is missing; what is in it stays."""
    return _open(path, os.O_RDWR | os.O_CREAT | flags)


def _open(path: Path, flags: int) -> int:
    if not NOFOLLOW:
        require_plain(path)
    try:
        descriptor = os.open(path, flags | _PLAINLY, 0o666)
    except OSError:
        require_plain(path)
        raise
    if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_plain(path, mode)
    return descriptor


def require_plain(path: Path) -> None:
    """Refuse a path where something else than a file is; there may be nothing."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise _not_plain(path, mode)


def _not_plain(path: Path, mode: int) -> UnsafeFile:
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    return UnsafeFile(
        f"{path} is {kind}, where a file is expected: inside runs and sweeps only plain files are opened, and no link "
        "is followed. Put the file itself there."
    )


def inside(folder: Path, *names: str) -> Path:
    """A directory of a run or a sweep, or where it will be; not one that a link leads to."""
    for name in names:
        folder /= name
        if folder.is_symlink():
            raise UnsafeFile(
                f"{folder} is a link: inside runs and sweeps no link is followed. Put the directory itself there; "
                "to have it on another disk, move the whole run or sweep, and make a link to that."
            )
    return folder


# --- reading ------------------------------------------------------------------------------------------------


def read(path: Path, at_most: int) -> bytes:
    """A file's content."""
    with open_to_read(path, at_most) as file:
        size = os.fstat(file.fileno()).st_size
        require_room(path, size)
        return file.read(size)


def require_room(path: Path, size: int) -> None:
    """Refuse to read a large file that there is no memory for."""
    if size > LARGE and size > free_memory():
        raise SettingError(f"{path} takes {size:,} bytes to be read, which is more than there is free memory.")


def read_text(path: Path, at_most: int) -> str:
    with _naming(path):
        return read(path, at_most).decode()


def read_toml(path: Path) -> dict[str, Any]:
    """A run's configuration."""
    data = read(path, CONFIG)
    with _naming(path):
        return tomllib.loads(data.decode())


def read_json(path: Path, at_most: int = NOTES) -> dict[str, Any]:
    """What a JSON file says by name."""
    data = read(path, at_most)
    with _naming(path):
        found = json.loads(data)
    if not isinstance(found, dict):
        raise DamagedFile(f"{path} holds no JSON object: bdqn has not written it.")
    return found


def read_given(path: Path) -> dict[str, Any]:
    """A TOML file that the user has named, which may be a link or a pipe; only its size is bounded."""
    with path.open("rb") as file:
        data = file.read(CONFIG + 1)
    if len(data) > CONFIG:
        raise DamagedFile(f"{path} has more than {CONFIG:,} bytes: is it the right file?")
    with _naming(path, " is no TOML file"):
        return tomllib.loads(data.decode())


def lines(path: Path, at_most: int = TABLE) -> Iterator[str]:
    """A file's lines, one at a time, each of a sensible length."""
    with open_to_read(path, at_most) as file:
        while line := file.readline(LINE):
            with _naming(path):
                if len(line) == LINE:
                    raise ValueError(f"a line is longer than {LINE:,} bytes.")
                text = line.decode()
            yield text


def rows(path: Path, at_most: int = TABLE) -> Iterator[list[str]]:
    """A CSV file's rows, one at a time, headings and all."""
    with _naming(path):
        yield from csv.reader(lines(path, at_most))


def last_line(path: Path) -> str:
    """The last line that says something, however long the file is; at most its end."""
    with open_to_read(path, at_most=1 << 62) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 64 * KB))
        end = file.read(64 * KB).decode(errors="replace")
    return next((line for line in reversed(end.splitlines()) if line.strip()), "")


def require(path: Path, content: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Refuse what has a value of another kind under one of these names, or none; texts are names, on one line."""
    for name, kind in kinds.items():
        value = content.get(name)
        if (
            not isinstance(value, kind)
            or (kind is int and not is_count(value))
            or (kind is str and not value.isprintable())
        ):
            raise DamagedFile(f"{path} has no usable {name}: it was not written by this version of bdqn.")


def printable(text: object) -> str:
    """Text on one line, without what a terminal obeys: control characters, and changes of the direction of writing."""
    return _OBEYED.sub(" ", str(text))


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


@contextmanager
def _naming(path: Path, problem: str = "") -> Iterator[None]:
    """Errors in here are about what this file holds."""
    try:
        yield
    except SettingError:
        raise
    except RecursionError as error:
        raise DamagedFile(f"{path}{problem}: it is nested too deeply.") from error
    except (ValueError, csv.Error) as error:
        raise DamagedFile(f"{path}{problem}: {error}") from error
