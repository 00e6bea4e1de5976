"""What a result depends on besides its configuration: versions, machine, the source's commit. No torch."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

PACKAGES = ("bdqn", "torch", "numpy", "gymnasium", "ale-py")


@cache
def installed(package: str) -> str | None:
    """A package's version, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """Python and the packages whose version can change a result."""
    return {"python": platform.python_version(), **{package: installed(package) for package in PACKAGES}}


def machine() -> dict[str, str | int | float]:
    """Where it runs."""
    return {
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
    }


def git_commit() -> str | None:
    """The commit of the checkout that this program stands in, with "-dirty" if it was changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
