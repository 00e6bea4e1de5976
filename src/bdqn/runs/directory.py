"""A run's directory: created for one run and locked to one process at a time."""

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
BEFORE_A_RUN = {LOCK, f"{TEMPORARY}config.toml"}  # what a run leaves that was killed before it started


class DirectoryLost(RuntimeError):
    """Raised when this process must no longer write to the run's directory. The message says why."""


class DirectoryRemoved(DirectoryLost):
    """Raised when the directory was removed with its content."""


def new_directory(root: Path, env: str, agent: str, seed: int) -> Path:
    """Create ``root/<env>/<agent>/<time>_s<seed>`` under a name that no other run has."""
    parent = root / env.replace("/", "-").replace(":", "-") / agent
    make_directory(parent)
    name = f"{datetime.now():%Y%m%d-%H%M%S}_s{seed}"
    for attempt in range(1, 1000):
        folder = parent / (name if attempt == 1 else f"{name}_{attempt}")
        with suppress(FileExistsError):  # two runs may start in the same second
            folder.mkdir()
            flush_directory(parent)
            return folder
    raise FileExistsError(f"{parent} already holds a thousand runs from this second.")


def claim_directory(folder: Path) -> Path:
    """Create the directory that the user named, if needed."""
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder} is a file, but must be a directory: choose another path.")
    make_directory(folder)
    return folder


class Claim:
    """An exclusive claim to a run's directory, which follows the directory when it is moved."""

    def __init__(self, folder: Path) -> None:
        """Lock the directory, or raise SettingError if another process holds it."""
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
        """Check that the claim still holds. Returns a message if the directory moved or the lock was restored."""
        if not self._is_at(self.folder):
            before, self.folder = self.folder, self._found_elsewhere()
            return f"{before} was moved: the run continues in {self.folder}."
        if _identity(self.folder / LOCK) == self._identity:
            return None
        if not (self.folder / LOCK).exists():
            with suppress(Timeout):
                self._lock.release()
                self._take_lock()
                return f"{self.folder / LOCK} was removed and has been restored: it keeps other processes out."
        try:
            require_plain(self.folder / LOCK)
        except UnsafeFile as error:
            raise DirectoryLost(f"{error} Without its lock, nothing more was written to {self.folder}.") from error
        raise DirectoryLost(f"Another process has taken over {self.folder}, so nothing more was written to it.")

    def _lock_directory(self) -> None:
        """Lock the directory itself. Unlike the lock file, this lock cannot be removed during the run."""
        try:
            fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # some network file systems cannot lock directories: rely on the lock file
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
        with suppress(OSError):  # only Linux reports the path
            path = Path(os.readlink(f"/proc/self/fd/{self._directory}"))
            if self._is_at(path):
                return path
        raise DirectoryRemoved(f"{self.folder} was removed during the run.")


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, or None if it does not exist."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def locked(folder: Path, *, new: bool) -> Iterator[Claim]:
    """Lock a run's directory for this process. A ``new`` run needs an empty directory."""
    if new:
        _require_empty(folder)  # before creating a lock file in a directory with other content
    try:
        claim = Claim(folder)
    except OSError as error:
        raise SettingError(f"{folder} is not writable: {error}") from error
    try:
        if new:
            _require_empty(folder)
        yield claim
    finally:
        claim.release()


def is_locked(folder: Path) -> bool:
    """Whether another process holds this run's directory."""
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
    """Whether a directory holds a run."""
    return any((folder / name).exists() for name in ("config.toml", "meta.json"))


def _require_empty(folder: Path) -> None:
    if holds_run(folder):
        raise SettingError(
            f"{folder} already holds a run: continue it (--continue), or choose another directory. Every run needs its "
            "own --out, also for another seed. Without --out, a run gets a directory under runs/."
        )
    foreign = sorted({path.name for path in folder.iterdir()} - BEFORE_A_RUN)
    if foreign:
        raise SettingError(
            f"{folder} is not empty and holds no run ({foreign[0]}{', ...' if foreign[1:] else ''}): a run could "
            "overwrite its files. Choose another directory."
        )
