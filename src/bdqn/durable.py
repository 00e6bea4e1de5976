"""Files that are whole or not there, whenever the machine stops.

The order is always the same: write under a temporary name, flush the file to the disk, rename, flush the directory.
A reader therefore never meets half a file, and whatever is renamed last vouches for all that came before it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

TEMPORARY = ".tmp-"  # what a crash may leave behind starts with this


def write_file(path: Path, data: bytes) -> None:
    """Put a file in place of whatever stood there, in one stroke."""
    temporary = path.with_name(TEMPORARY + path.name)
    try:
        _write(temporary, data)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush_directory(path.parent)


def write_directory(path: Path, files: Mapping[str, bytes]) -> None:
    """Make a directory of files, written in this order, that appears under its name only when it is complete."""
    temporary = path.with_name(TEMPORARY + path.name)
    discard(temporary)
    try:
        make_directory(path.parent)
        temporary.mkdir()
        for name, data in files.items():
            _write(temporary / name, data)
        flush_directory(temporary)
        os.replace(temporary, path)
    except BaseException:
        discard(temporary)
        raise
    flush_directory(path.parent)


def make_directory(path: Path) -> None:
    """Make a directory and those above it, unless they are there, so that they survive a power cut."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        flush_directory(path.parent)


def discard(path: Path) -> None:
    """Remove a directory, under a temporary name first: half of one never stands under its own."""
    if not path.exists():
        return
    if not path.name.startswith(TEMPORARY):
        temporary = path.with_name(TEMPORARY + path.name)
        shutil.rmtree(temporary, ignore_errors=True)  # left by a crash while it was being removed
        path = path.replace(temporary)
    shutil.rmtree(path, ignore_errors=True)


def discard_leftovers(folder: Path, ours: re.Pattern[str]) -> None:
    """Remove what a crash left half-written; only what would have had a name of ``ours``."""
    for path in folder.glob(f"{TEMPORARY}*"):
        if not ours.fullmatch(path.name.removeprefix(TEMPORARY)):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def flush_directory(path: Path) -> None:
    """Make the names in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
