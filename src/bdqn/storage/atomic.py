"""Files that are whole or not there, whenever the machine stops.

The order is always the same: write under a temporary name, flush the file to the disk, rename, flush the directory.
A reader therefore never meets half a file, and whatever is renamed last vouches for all that came before it.

Directories may come from anybody. So a file is always made anew, in a directory that is held open meanwhile: what
stands in its place, left by a crash or put there as a link, is removed and never written to.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".tmp-"  # what a crash may leave behind starts with this
_EXCLUSIVELY = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_HANDLES = {os.open, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd  # not on Windows


def write_file(path: Path, data: bytes) -> None:
    """Put a file in place of whatever stood there, in one stroke; a link gives way, and what it leads to stays."""
    with _held(path.parent) as folder:
        temporary = TEMPORARY + path.name
        try:
            folder.make_file(temporary, data)
            folder.rename(temporary, path.name)
        except BaseException:
            folder.remove(temporary)
            raise
        folder.flush()


def write_directory(path: Path, files: Mapping[str, bytes]) -> None:
    """Make a directory of files, written in this order, that appears under its name only when it is complete."""
    make_directory(path.parent)
    with _held(path.parent) as folder:
        temporary = TEMPORARY + path.name
        folder.remove(temporary)
        try:
            with folder.make_directory(temporary) as new:
                for name, data in files.items():
                    new.make_file(name, data)
                new.flush()
            folder.rename(temporary, path.name)
        except BaseException:
            folder.remove(temporary)
            raise
        folder.flush()


def make_directory(path: Path) -> None:
    """Make a directory and those above it, unless they are there, so that they survive a power cut."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        flush_directory(path.parent)


def discard(path: Path) -> None:
    """Remove a directory, under a temporary name first: half of one never stands under its own."""
    if not os.path.lexists(path):
        return
    with _held(path.parent) as folder:
        name = path.name
        if not name.startswith(TEMPORARY):
            name = TEMPORARY + name
            folder.remove(name)  # left by a crash while it was being removed
            folder.rename(path.name, name)
        folder.remove(name)


def discard_leftovers(folder: Path, ours: re.Pattern[str]) -> None:
    """Remove what a crash left half-written; only what would have had a name of ``ours``."""
    with _held(folder) as held:
        for path in folder.glob(f"{TEMPORARY}*"):
            if ours.fullmatch(path.name.removeprefix(TEMPORARY)):
                held.remove(path.name)


def flush_directory(path: Path) -> None:
    """Make the names in a directory survive a power cut."""
    with _held(path) as folder:
        folder.flush()


class _Held:
    """A directory that is held open: what is done in it happens there, wherever its path may lead by then."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self._path, self._handle = path, handle

    def make_file(self, name: str, data: bytes) -> None:
        """A new file, flushed to the disk; whatever stood there is removed."""
        try:
            file = os.open(self._at(name), _EXCLUSIVELY, 0o666, dir_fd=self._handle)
        except FileExistsError:  # left by a crash
            self.remove(name)
            file = os.open(self._at(name), _EXCLUSIVELY, 0o666, dir_fd=self._handle)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)

    @contextmanager
    def make_directory(self, name: str) -> Iterator[_Held]:
        """A new directory, held open too."""
        os.mkdir(self._at(name), dir_fd=self._handle)
        if self._handle is None:
            yield _Held(self._path / name, None)
            return
        handle = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._handle)
        try:
            yield _Held(self._path / name, handle)
        finally:
            os.close(handle)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._at(old), self._at(new), src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def remove(self, name: str) -> None:
        """Whatever has this name, if anything: a link is removed, not what it leads to."""
        try:
            mode = os.stat(self._at(name), dir_fd=self._handle, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISDIR(mode):
            shutil.rmtree(self._at(name), ignore_errors=True, dir_fd=self._handle)
        else:
            os.unlink(self._at(name), dir_fd=self._handle)

    def flush(self) -> None:
        if self._handle is not None:
            os.fsync(self._handle)

    def _at(self, name: str) -> str:
        return str(self._path / name) if self._handle is None else name


@contextmanager
def _held(path: Path) -> Iterator[_Held]:
    if not _HANDLES:
        yield _Held(path, None)
        return
    handle = os.open(path, _DIRECTORY)
    try:
        yield _Held(path, handle)
    finally:
        os.close(handle)
