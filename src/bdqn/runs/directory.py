"""A run's directory: made for one run, and kept to one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from bdqn.config.settings import SettingError
from bdqn.storage.atomic import TEMPORARY, flush_directory, make_directory
from bdqn.storage.safe_files import UnsafeFile, require_plain

LOCK = "lock"
BEFORE_A_RUN = {LOCK, f"{TEMPORARY}config.toml"}  # what may be left where one was killed before it had begun


class DirectoryLost(RuntimeError):
    """A run's directory is no longer for this process to write to; the message says why."""


class DirectoryRemoved(DirectoryLost):
    """It has been removed, with all that was in it."""


def new_directory(root: Path, env: str, agent: str, seed: int) -> Path:
    """Make ``root/<env>/<agent>/<time>_s<seed>``, which no other run has."""
    parent = root / env.replace("/", "-").replace(":", "-") / agent
    make_directory(parent)
    name = f"{datetime.now():%Y%m%d-%H%M%S}_s{seed}"
    for attempt in range(1, 1000):
        folder = parent / (name if attempt == 1 else f"{name}_{attempt}")
        with suppress(FileExistsError):  # two runs may start in the same second
            folder.mkdir()
            flush_directory(parent)
            return folder
    raise FileExistsError(f"{parent} holds a thousand runs of this second.")


def claim_directory(folder: Path) -> Path:
    """Make the directory that the user named."""
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder} is a file, but a run is a directory: choose another path.")
    make_directory(folder)
    return folder


class Claim:
    """A run's directory while it belongs to this process, wherever it is moved."""

    def __init__(self, folder: Path) -> None:
        """Take it, or say who has it."""
        self.folder = folder
        self._directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._lock_directory()
            self._take_lock()
        except (BlockingIOError, Timeout):
            os.close(self._directory)
            raise SettingError(f"{folder} is in use: another process is training in it.") from None
        except BaseException:
            os.close(self._directory)
            raise

    def release(self) -> None:
        self._lock.release()
        os.close(self._directory)

    def check(self) -> str | None:
        """See that it is still this process's; says what has happened to it, if that could be mended."""
        if not self._is_at(self.folder):
            before, self.folder = self.folder, self._found_elsewhere()
            return f"{before} was moved: the run goes on in {self.folder}."
        if _identity(self.folder / LOCK) == self._identity:
            return None
        if not (self.folder / LOCK).exists():
            with suppress(Timeout):
                self._lock.release()
                self._take_lock()
                return f"{self.folder / LOCK} was removed and has been made again: it keeps other processes out."
        try:
            require_plain(self.folder / LOCK)
        except UnsafeFile as error:
            raise DirectoryLost(f"{error} Without its lock nothing more was written to {self.folder}.") from error
        raise DirectoryLost(f"Another process has taken {self.folder} over, so nothing more was written to it.")

    def _lock_directory(self) -> None:
        """A lock that cannot be removed while the run goes on, as the file can."""
        try:
            fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # some network file systems lock no directories: then the file's lock is all there is
            pass

    def _take_lock(self) -> None:
        require_plain(self.folder / LOCK)
        self._lock = FileLock(self.folder / LOCK)
        self._lock.acquire(timeout=0)
        self._identity = _identity(self.folder / LOCK)

    def _is_at(self, path: Path) -> bool:
        try:
            return os.path.samestat(os.fstat(self._directory), os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _found_elsewhere(self) -> Path:
        with suppress(OSError):  # only Linux says where it is
            path = Path(os.readlink(f"/proc/self/fd/{self._directory}"))
            if self._is_at(path):
                return path
        raise DirectoryRemoved(f"{self.folder} was removed while the run went on.")


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file stands under a name, if one does."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def locked(folder: Path, *, new: bool) -> Iterator[Claim]:
    """Keep a run's directory to this process; a ``new`` run is refused where anything already is."""
    if new:
        _require_empty(folder)  # before there is a lock of ours in somebody's directory
    try:
        claim = Claim(folder)
    except OSError as error:
        raise SettingError(f"{folder} cannot be written to: {error}") from error
    try:
        if new:
            _require_empty(folder)
        yield claim
    finally:
        claim.release()


def is_locked(folder: Path) -> bool:
    """Whether another process has this run's directory at the moment."""
    if not (folder / LOCK).exists():
        return False
    require_plain(folder / LOCK)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def holds_run(folder: Path) -> bool:
    """Whether a run was begun in a directory."""
    return any((folder / name).exists() for name in ("config.toml", "meta.json"))


def _require_empty(folder: Path) -> None:
    if holds_run(folder):
        raise SettingError(
            f"{folder} already holds a run: go on with it (--continue), or choose another directory. --out is the "
            "run's own: one of another seed has another, or leaves --out out and gets one under runs/."
        )
    foreign = sorted({path.name for path in folder.iterdir()} - BEFORE_A_RUN)
    if foreign:
        raise SettingError(
            f"{folder} is not empty and holds no run ({foreign[0]}{', ...' if foreign[1:] else ''}): a run would write "
            "over what is there. Choose another directory."
        )
