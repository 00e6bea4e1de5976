"""Optional dependencies: what they are for, whether they are installed, and how to install them."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from typing import NamedTuple


class Extra(NamedTuple):
    """An extra of pyproject.toml: optional packages under one name."""

    use: str
    modules: tuple[str, ...]  # that the packages provide; other packages may provide the same

    @property
    def is_installed(self) -> bool:
        return all(find_spec(module) is not None for module in self.modules)


EXTRAS = {
    "atari": Extra("environments ALE/...", ("ale_py", "cv2")),
    "minatar": Extra("environments MinAtar/...", ("minatar",)),
    "minigrid": Extra("environments bdqn/MiniGrid...", ("minigrid",)),
    "classic": Extra("rendering of classic control, for bdqn watch", ("pygame",)),
    "tensorboard": Extra("bdqn train --tensorboard", ("tensorboard",)),
    "wandb": Extra("bdqn train --log wandb", ("wandb",)),
    "mlflow": Extra("bdqn train --log mlflow", ("mlflow",)),
    "video": Extra("bdqn watch --video", ("imageio_ffmpeg",)),
    "export": Extra("bdqn export --onnx", ("onnx", "onnxruntime", "onnxscript")),
    "minari": Extra("bdqn.attach with a Minari data set", ("minari", "h5py")),
    "tune": Extra("bdqn tune --search", ("optuna",)),
    "ray": Extra("bdqn sweep --ray", ("ray",)),
}


def how_to_install(*extras: str) -> str:
    """Return the install command. bdqn is installed from a clone; constraints.txt keeps torch's version."""
    python = "python" if shutil.which("python") == sys.executable else shlex.quote(sys.executable)
    return f"in bdqn's repository: {python} -m pip install -c constraints.txt -e '.[{','.join(extras)}]'"


def missing(what: str, extra: str, reason: object) -> str:
    """Return the error message for a feature whose extra is not installed."""
    return f"{what} needs the extra {extra}; {how_to_install(extra)} ({reason})"
