"""Safe access to the files of runs, sweeps and saved agents, which may come from untrusted sources.

Inside such a directory only regular files are opened, symbolic links are not followed, pipes are not waited for, and
every read has a size limit. The path to the directory itself, which the user typed, may contain links.
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
# Size limits in bytes for each kind of file. Files that bdqn writes are far smaller.
CONFIG = 1 * MB  # config.toml; a sweep or search file
NOTES = 16 * MB  # meta.json, command.txt: they grow with every resumption
EVALUATION = 64 * MB  # evaluation-*.json: one number per episode
TRIALS = 64 * MB  # trials.csv: half a million trials
STUDY = 256 * MB  # study.jsonl
TABLE = 4 * GB  # 50 million one-decision episodes take 1.5 GB
LINE = 1 * MB  # one line of a table
LARGE = 64 * MB  # larger files are read only if the free memory suffices

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)  # missing on Windows, where links are checked for before opening
# O_NONBLOCK: do not wait for a pipe's writer. O_BINARY: do not convert line endings on Windows.
_SAFE_FLAGS = NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")


class DamagedFile(SettingError):
    """Raised for a file whose content bdqn cannot have written. The message names the file."""


class UnsafeFile(DamagedFile, OSError):
    """Raised for anything but a regular file of acceptable size. The message names it and says what it is."""


# --- opening ------------------------------------------------------------------------------------------------


def open_to_read(path: Path, at_most: int) -> BinaryIO:
    """Open a regular file of at most ``at_most`` bytes."""
    descriptor = _open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        if size > at_most:
            raise UnsafeFile(f"{path} has {size:,} bytes, but at most {at_most:,} are allowed: bdqn did not write it.")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_to_write(path: Path, flags: int = 0) -> int:
    """Open a regular file for writing and return its descriptor. Creates the file if needed; never truncates."""
    return _open(path, os.O_RDWR | os.O_CREAT | flags)


def _open(path: Path, flags: int) -> int:
    if not NOFOLLOW:
        require_plain(path)
    try:
        descriptor = os.open(path, flags | _SAFE_FLAGS, 0o666)
    except OSError:
        require_plain(path)
        raise
    if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_plain(path, mode)
    return descriptor


def require_plain(path: Path) -> None:
    """Refuse a path that exists and is not a regular file."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise _not_plain(path, mode)


def _not_plain(path: Path, mode: int) -> UnsafeFile:
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    return UnsafeFile(
        f"{path} is {kind}, not a regular file: inside runs and sweeps, bdqn opens only regular files and follows no "
        "links. Put the file itself there."
    )


def inside(folder: Path, *names: str) -> Path:
    """Return a subdirectory of a run or sweep, which need not exist. Refuses symbolic links."""
    for name in names:
        folder /= name
        if folder.is_symlink():
            raise UnsafeFile(
                f"{folder} is a link: inside runs and sweeps, bdqn follows no links. Put the directory itself there. "
                "To use another disk, move the whole run or sweep and link to it."
            )
    return folder


# --- reading ------------------------------------------------------------------------------------------------


def read(path: Path, at_most: int) -> bytes:
    """Read a file."""
    with open_to_read(path, at_most) as file:
        size = os.fstat(file.fileno()).st_size
        require_room(path, size)
        return file.read(size)


def require_room(path: Path, size: int) -> None:
    """Refuse to read a large file that does not fit in the free memory."""
    if size > LARGE and size > free_memory():
        raise SettingError(f"{path} needs {size:,} bytes of memory to be read, but less is free.")


def read_text(path: Path, at_most: int) -> str:
    with _errors_naming(path):
        return read(path, at_most).decode()


def read_toml(path: Path) -> dict[str, Any]:
    """Read a run's configuration."""
    data = read(path, CONFIG)
    with _errors_naming(path):
        return tomllib.loads(data.decode())


def read_json(path: Path, at_most: int = NOTES) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    data = read(path, at_most)
    with _errors_naming(path):
        found = json.loads(data)
    if not isinstance(found, dict):
        raise DamagedFile(f"{path} does not hold a JSON object: bdqn did not write it.")
    return found


def read_user_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file that the user named. It may be a link or a pipe; only its size is limited."""
    with path.open("rb") as file:
        data = file.read(CONFIG + 1)
    if len(data) > CONFIG:
        raise DamagedFile(f"{path} has more than {CONFIG:,} bytes: is it the right file?")
    with _errors_naming(path, " is not a valid TOML file"):
        return tomllib.loads(data.decode())


def lines(path: Path, at_most: int = TABLE) -> Iterator[str]:
    """Iterate over a file's lines, of limited length."""
    with open_to_read(path, at_most) as file:
        while line := file.readline(LINE):
            with _errors_naming(path):
                if len(line) == LINE:
                    raise ValueError(f"a line is longer than {LINE:,} bytes.")
                text = line.decode()
            yield text


def rows(path: Path, at_most: int = TABLE) -> Iterator[list[str]]:
    """Iterate over a CSV file's rows, including the header."""
    with _errors_naming(path):
        yield from csv.reader(lines(path, at_most))


def last_line(path: Path) -> str:
    """Return the last line that is not blank. Reads only the end of the file."""
    with open_to_read(path, at_most=1 << 62) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 64 * KB))
        end = file.read(64 * KB).decode(errors="replace")
    return next((line for line in reversed(end.splitlines()) if line.strip()), "")


def require(path: Path, content: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Refuse content in which one of these names is missing or has another type. Strings must be printable."""
    for name, kind in kinds.items():
        value = content.get(name)
        if (
            not isinstance(value, kind)
            or (kind is int and not is_count(value))
            or (kind is str and not value.isprintable())
        ):
            raise DamagedFile(f"{path} has no valid {name}: this version of bdqn did not write it.")


def printable(text: object) -> str:
    """Return text on one line, without control characters and bidirectional overrides."""
    return _UNPRINTABLE.sub(" ", str(text))


def printable_lines(text: str) -> str:
    """Return text without control characters and bidirectional overrides, but with its line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


@contextmanager
def _errors_naming(path: Path, problem: str = "") -> Iterator[None]:
    """Turn errors in the block into DamagedFile errors that name this file."""
    try:
        yield
    except SettingError:
        raise
    except RecursionError as error:
        raise DamagedFile(f"{path}{problem}: it is nested too deeply.") from error
    except (ValueError, csv.Error) as error:
        raise DamagedFile(f"{path}{problem}: {error}") from error
