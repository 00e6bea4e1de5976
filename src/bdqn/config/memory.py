"""How much memory this process can still allocate, within the limits of the machine and of its container."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means out of memory. torch raises RuntimeError instead of MemoryError."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and any(sign in str(error) for sign in ("can't allocate memory", "out of memory"))
    )


def free_memory() -> int:
    """Return the bytes that can be allocated before the system refuses or kills the process."""
    limits = [int(psutil.virtual_memory().available), *_free_in_cgroups()]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft - int(psutil.Process().memory_info().vms))
    return max(0, min(limits))


def _free_in_cgroups() -> Iterator[int]:
    """Yield the free bytes of every control group of this process (version 2, or 1 with a memory controller)."""
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
                with suppress(OSError, ValueError):  # "max" means no limit
                    yield int((folder / limit).read_text()) - int((folder / used).read_text()) + _cache(folder)


def _cache(folder: Path) -> int:
    """Return the bytes of file cache, which count as used but are reclaimed on demand."""
    with suppress(OSError, ValueError):
        stats = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return int(stats.get("inactive_file", 0))
    return 0
