"""Agents on disk: a directory of safetensors and JSON. Nothing in it is ever executed.

``manifest.json`` says what made it, ``tensors.safetensors`` holds every array, ``state.json`` every other value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from bdqn.configure import configure
from bdqn.settings import SettingError

if TYPE_CHECKING:
    from bdqn.envs import Source
    from bdqn.learner import Learner

FORMAT = 1
_SEPARATOR = "/"


def save(learner: Learner, path: str | Path) -> None:
    """Write a learner's agent; a directory that holds something else is refused."""
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / "manifest.json").exists())):
        raise FileExistsError(f"{folder} exists and is no saved agent: choose another path.")
    folder.mkdir(parents=True, exist_ok=True)
    tensors, values = _split(learner.agent.state())
    save_file(tensors, folder / "tensors.safetensors")
    _write_json(folder / "state.json", values)
    configuration = learner.configuration
    _write_json(
        folder / "manifest.json",
        {
            "format": FORMAT,
            "bdqn": version("bdqn"),
            "agent": configuration.agent,
            "preset": configuration.preset,
            "family": configuration.family,
            "settings": configuration.values,
            "env": learner.env_source if isinstance(learner.env_source, str) else None,
            "env_kwargs": learner.env_kwargs,
            "num_envs": learner.envs.num_envs,
            "seed": learner.seed,
            "own_network": learner.network is not None,
        },
    )


def load(
    path: str | Path,
    env: Source | None = None,
    *,
    device: str = "cpu",
    network: torch.nn.Module | None = None,
    **settings: Any,
) -> Learner:
    """A learner with a saved agent; give ``env`` (and ``network``) again if it was not made from an id.

    ``settings`` replace saved ones, such as a buffer_size that fits here.
    """
    from bdqn.learner import Learner

    folder = Path(path)
    if not (folder / "manifest.json").is_file():
        raise FileNotFoundError(f"{folder} holds no saved agent (no manifest.json).")
    manifest = _read_json(folder / "manifest.json")
    if manifest["format"] != FORMAT:
        raise SettingError(
            f"{folder} is written in format {manifest['format']}, this version of bdqn ({version('bdqn')}) reads "
            f"format {FORMAT}; it was saved by bdqn {manifest['bdqn']}."
        )
    source = env if env is not None else manifest["env"]
    if source is None:
        raise SettingError(f"{folder} was not trained on a registered environment: bdqn.load(path, env=...).")
    if manifest["own_network"] and network is None:
        raise SettingError(f"{folder} was trained with a network of your own: bdqn.load(path, network=...).")
    name = manifest["preset"].removesuffix(f"-{manifest['family']}")
    learner = Learner(
        configure(manifest["agent"], manifest["family"], name, manifest["settings"] | settings),
        source,
        seed=manifest["seed"],
        num_envs=manifest["num_envs"],
        device=device,
        network=network,
        env_kwargs=manifest["env_kwargs"] if isinstance(source, str) else None,
    )
    tensors = load_file(folder / "tensors.safetensors")
    learner.agent.load_state(_join(tensors, _read_json(folder / "state.json")))
    return learner


def _split(tree: Mapping[str, Any], prefix: str = "") -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """A nested dictionary as flat tensors and a nested dictionary of the rest."""
    tensors: dict[str, torch.Tensor] = {}
    values: dict[str, Any] = {}
    for key, item in tree.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            inner, values[key] = _split(item, name + _SEPARATOR)
            tensors |= inner
        elif isinstance(item, torch.Tensor):
            tensors[name] = item.detach().cpu().contiguous().clone()
        elif isinstance(item, np.ndarray):
            tensors[name] = torch.from_numpy(np.ascontiguousarray(item))
        else:
            values[key] = item
    return tensors, values


def _join(tensors: Mapping[str, torch.Tensor], values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of ``_split``: put every tensor back into its place among the values."""
    for name, tensor in tensors.items():
        *parents, key = name.split(_SEPARATOR)
        place = values
        for parent in parents:
            place = place[parent]
        place[key] = tensor
    return values


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text())
