"""A run's directory: made for one run, and kept to one process at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from bdqn.durable import flush_directory, make_directory
from bdqn.settings import SettingError


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


@contextmanager
def locked(folder: Path, *, new: bool) -> Iterator[None]:
    """Keep a run's directory to this process; a ``new`` run is refused where one already is."""
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise SettingError(f"{folder} is in use: another process is training in it.") from None
    except OSError as error:
        raise SettingError(f"{folder} cannot be written to: {error}") from error
    try:
        if new and ((folder / "config.toml").exists() or (folder / "meta.json").exists()):
            raise SettingError(
                f"{folder} already holds a run: go on with it (bdqn resume {folder}), or choose another directory."
            )
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Whether another process has this run's directory at the moment."""
    if not (folder / "lock").exists():
        return False
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False
