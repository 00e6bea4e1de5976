"""Atomic writes: a file is either complete or absent, even after a crash or a power cut.

The order is always the same: write under a temporary name, sync the file, rename it, sync the directory. Readers
never see a partial file. Whatever is renamed last proves that everything before it is on disk.

Directories may come from untrusted sources. Every file is therefore created anew, relative to an open directory.
Whatever is in its place, left by a crash or planted as a symbolic link, is removed and never written to.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".tmp-"  # prefix of files that a crash may leave behind
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_SUPPORTS_DIR_FD = {os.open, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd  # not on Windows


def write_file(path: Path, data: bytes) -> None:
    """Replace a file atomically. A symbolic link is replaced itself; its target stays as it is."""
    with _open_directory(path.parent) as folder:
        temporary = TEMPORARY + path.name
        try:
            folder.make_file(temporary, data)
            folder.rename(temporary, path.name)
        except BaseException as error:
            folder.remove(temporary)
            if isinstance(error, IsADirectoryError):
                raise IsADirectoryError(
                    f"{path} is a directory, but a file must be written there: move it away."
                ) from error
            raise
        folder.flush()


def write_output(path: Path, text: str) -> None:
    """Write a text file that the user named. A link leads to the file; a pipe or a device is written to directly."""
    data = text.encode()
    if path.exists() and not (path.is_file() or path.is_dir()):
        path.write_bytes(data)
    else:
        write_file(path.resolve(), data)


def write_directory(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files, in this order, to a new directory that appears under its name only when it is complete."""
    make_directory(path.parent)
    with _open_directory(path.parent) as folder:
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


def replace_directory(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files to a directory, in place of the one that has its name, if any. At any moment one is complete."""
    new, old = replacements(path)
    discard(new)
    write_directory(new, files)
    discard(old)
    if path.exists():
        path.rename(old)  # until the next line both are complete, and neither has the final name
    new.rename(path)
    flush_directory(path.parent)
    discard(old)


def replacements(path: Path) -> tuple[Path, Path]:
    """The directories that `replace_directory` makes beside a directory. A crash may leave them."""
    return path.with_name(f"{TEMPORARY}new-{path.name}"), path.with_name(f"{TEMPORARY}old-{path.name}")


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents, and sync each to disk."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        flush_directory(path.parent)


def discard(path: Path) -> None:
    """Remove a directory. It is renamed first, so a partly removed one never has its own name."""
    if not os.path.lexists(path):
        return
    with _open_directory(path.parent) as folder:
        name = path.name
        if not name.startswith(TEMPORARY):
            name = TEMPORARY + name
            folder.remove(name)  # left by a crash during an earlier removal
            folder.rename(path.name, name)
        folder.remove(name)


def set_aside(path: Path) -> None:
    """Rename a damaged directory to ``damaged-NAME``. An earlier one of that name is removed."""
    aside = path.with_name(f"damaged-{path.name}")
    discard(aside)
    path.rename(aside)


def discard_leftovers(folder: Path, ours: re.Pattern[str]) -> None:
    """Remove partial files and directories that a crash left, if their final name matches ``ours``."""
    with _open_directory(folder) as held:
        for path in folder.glob(f"{TEMPORARY}*"):
            if ours.fullmatch(path.name.removeprefix(TEMPORARY)):
                held.remove(path.name)


def flush_directory(path: Path) -> None:
    """Sync a directory's entries to disk."""
    with _open_directory(path) as folder:
        folder.flush()


class _OpenDirectory:
    """An open directory. Operations apply to this directory, even if its path is redirected meanwhile."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self._path, self._handle = path, handle

    def make_file(self, name: str, data: bytes) -> None:
        """Create a file and sync it to disk. Whatever has this name is removed first."""
        try:
            file = os.open(self._at(name), _NEW_FILE, 0o666, dir_fd=self._handle)
        except FileExistsError:  # left by a crash
            self.remove(name)
            file = os.open(self._at(name), _NEW_FILE, 0o666, dir_fd=self._handle)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)

    @contextmanager
    def make_directory(self, name: str) -> Iterator[_OpenDirectory]:
        """Create a directory and open it."""
        os.mkdir(self._at(name), dir_fd=self._handle)
        if self._handle is None:
            yield _OpenDirectory(self._path / name, None)
            return
        handle = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._handle)
        try:
            yield _OpenDirectory(self._path / name, handle)
        finally:
            os.close(handle)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._at(old), self._at(new), src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def remove(self, name: str) -> None:
        """Remove whatever has this name, if anything. A symbolic link is removed, not its target."""
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
def _open_directory(path: Path) -> Iterator[_OpenDirectory]:
    if not _SUPPORTS_DIR_FD:
        yield _OpenDirectory(path, None)
        return
    handle = os.open(path, _DIRECTORY)
    try:
        yield _OpenDirectory(path, handle)
    finally:
        os.close(handle)
