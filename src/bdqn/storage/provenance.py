"""What a result depends on besides its configuration: versions, machine, commit. Imports no torch."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

import psutil
from threadpoolctl import threadpool_info

PACKAGES = ("bdqn", "torch", "numpy", "gymnasium", "ale-py")


@cache
def installed(package: str) -> str | None:
    """Return a package's version, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that can change a result."""
    return {"python": platform.python_version(), **{package: installed(package) for package in PACKAGES}}


def packages() -> dict[str, str]:
    """Return every installed package with its version."""
    found = {distribution.metadata["Name"]: distribution.version for distribution in distributions()}
    return dict(sorted((name, number) for name, number in found.items() if name))


@cache
def processor() -> str:
    """Return the processor's model, if the system reports it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


@cache
def arithmetic() -> dict[str, str]:
    """Return what affects rounding: the processor, and the BLAS libraries with the kernels they selected.

    The same program on another machine may sum in another order and differ in the last bits.
    """
    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    # Other packages, such as OpenCV, ship BLAS libraries that bdqn does not use.
    ours = [library for library in found if re.search("numpy|scipy", library["filepath"])]
    libraries = {
        f"{library['internal_api']} {library['version']} for {library.get('architecture', 'any processor')}"
        for library in ours or found
    }
    return {"processor": processor(), "BLAS": ", ".join(sorted(libraries)) or "unknown"}


def machine() -> dict[str, str | int | float]:
    """Describe this machine."""
    return {
        "system": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
    }


def git_commit() -> str | None:
    """Return the commit of the checkout that this code runs from, with "-dirty" for uncommitted changes."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
