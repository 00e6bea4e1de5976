"""How much memory this process may still take: the machine's, or less where a container or a limit says so."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there is no memory: Python's and NumPy's do, and torch's in its own way."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and any(sign in str(error) for sign in ("can't allocate memory", "out of memory"))
    )


def free_memory() -> int:
    """Bytes that can still be taken before the system refuses, or kills."""
    limits = [int(psutil.virtual_memory().available), *_cgroup_rooms()]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft - int(psutil.Process().memory_info().vms))
    return max(0, min(limits))


def _cgroup_rooms() -> Iterator[int]:
    """What is left under every control group that holds this process (version 2, and 1 where it has memory)."""
    with suppress(OSError):
        for line in OWN_CGROUP.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                root, limit, used = CGROUPS, "memory.max", "memory.current"
            elif "memory" in controllers.split(","):
                root, limit, used = CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            else:
                continue
            own = root / path.lstrip("/")
            for folder in (own, *own.parents):
                if folder == root.parent:
                    break
                with suppress(OSError, ValueError):  # "max" is no number: there is no limit
                    yield int((folder / limit).read_text()) - int((folder / used).read_text()) + _cache(folder)


def _cache(folder: Path) -> int:
    """What counts as used but is given back when needed: files that were read or written."""
    with suppress(OSError, ValueError):
        figures = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return int(figures.get("inactive_file", 0))
    return 0
