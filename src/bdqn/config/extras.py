"""Optional dependencies: what they are for, whether they are here, and how to get them."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from typing import NamedTuple


class Extra(NamedTuple):
    """Packages that pyproject.toml groups under one name."""

    use: str
    modules: tuple[str, ...]  # that they bring; another package may bring the same

    @property
    def is_here(self) -> bool:
        return all(find_spec(module) is not None for module in self.modules)


EXTRAS = {
    "atari": Extra("environments ALE/...", ("ale_py", "cv2")),
    "minatar": Extra("environments MinAtar/...", ("minatar",)),
    "classic": Extra("pictures of classic control, for bdqn watch", ("pygame",)),
    "tensorboard": Extra("bdqn train --tensorboard", ("tensorboard",)),
    "tune": Extra("bdqn tune --search", ("optuna",)),
    "ray": Extra("bdqn sweep --ray", ("ray",)),
}


def how_to_install(*extras: str) -> str:
    """Where to type what. bdqn is installed from a clone of its repository; constraints.txt keeps torch as it is."""
    python = "python" if shutil.which("python") == sys.executable else shlex.quote(sys.executable)
    return f"in bdqn's repository: {python} -m pip install -c constraints.txt -e '.[{','.join(extras)}]'"


def missing(what: str, extra: str, reason: object) -> str:
    """A sentence for someone who asked for what needs an extra."""
    return f"{what} needs the extra {extra}; {how_to_install(extra)} ({reason})"
