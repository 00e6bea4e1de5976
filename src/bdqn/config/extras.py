"""Optional dependencies: what they are for, whether they are installed, and how to install them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from importlib import metadata
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
    "bsuite": Extra("environments bsuite/...", ("bsuite",)),
    "classic": Extra("rendering of classic control, for bdqn watch", ("pygame",)),
    "tensorboard": Extra("bdqn train --tensorboard", ("tensorboard",)),
    "wandb": Extra("bdqn train --log wandb", ("wandb",)),
    "mlflow": Extra("bdqn train --log mlflow", ("mlflow",)),
    "video": Extra("bdqn watch --video", ("imageio_ffmpeg",)),
    "export": Extra("bdqn export --onnx", ("onnx", "onnxruntime", "onnxscript")),
    "hub": Extra("bdqn push and pull with hf://owner/name", ("huggingface_hub",)),
    "minari": Extra("bdqn.attach with a Minari data set", ("minari", "h5py")),
    "tune": Extra("bdqn tune --search", ("optuna",)),
    "ray": Extra("bdqn sweep --ray", ("ray",)),
}


def how_to_install(*extras: str) -> str:
    """Return the install command. In a clone, constraints.txt keeps torch's version."""
    python = "python" if shutil.which("python") == sys.executable else shlex.quote(sys.executable)
    if _is_a_clone():
        return f"in bdqn's repository: {python} -m pip install -c constraints.txt -e '.[{','.join(extras)}]'"
    return f"{python} -m pip install {shlex.join(_packages_of(extras))}"


def _is_a_clone() -> bool:
    """Whether the package was installed with ``pip install -e``, from its repository."""
    origin = json.loads(metadata.distribution("bdqn").read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def _packages_of(extras: tuple[str, ...]) -> list[str]:
    """Return what extras consist of, as the installed package's metadata says."""
    found = (re.fullmatch(r"(.+?) *; *extra == ['\"](.+)['\"]", line) for line in metadata.requires("bdqn") or ())
    return [match[1] for match in found if match and match[2] in extras]


def missing(what: str, extra: str, reason: object) -> str:
    """Return the error message for a feature whose extra is not installed."""
    return f"{what} needs the extra {extra}; {how_to_install(extra)} ({reason})"
