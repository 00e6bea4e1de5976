"""Checkpoints as someone else could write them: changed, and then consistent with themselves again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors.numpy import load, save

Change = Callable[[Any], Any]  # changes what it is given, or returns something else


def alone(run: Path, copy: Path) -> Path:
    """A copy of a run with its newest checkpoint only; gives that one."""
    shutil.copytree(run, copy)
    *others, newest = sorted((copy / "checkpoints").glob("gen-*"))
    for folder in others:
        shutil.rmtree(folder)
    return newest


def manifest_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return content


def forge(folder: Path, change: Change | None = None, members: Mapping[str, bytes] | None = None) -> None:
    """Replace members, let the manifest fit them, change the manifest itself, and seal it."""
    content = manifest_of(folder)
    for name, data in (members or {}).items():
        (folder / name).write_bytes(data)
    for entry in content["members"]:
        data = (folder / entry["name"]).read_bytes()
        entry |= {"size": len(data), "sha256": sha256(data).hexdigest()}
    content = _changed(content, change)
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "manifest.json").write_bytes(text)
    (folder / "manifest.sha256").write_bytes(f"{sha256(text).hexdigest()}  manifest.json\n".encode())


def forge_json(folder: Path, name: str, change: Change) -> None:
    content = _changed(json.loads((folder / name).read_bytes()), change)
    forge(folder, members={name: json.dumps(content).encode()})


def forge_arrays(folder: Path, name: str, change: Change) -> None:
    content = _changed(load((folder / name).read_bytes()), change)
    forge(folder, members={name: save(content)})


def forge_segment(folder: Path, number: int, change: Change) -> None:
    """Change the arrays of one of the replay segments that a checkpoint names, or all of its bytes."""
    segment = manifest_of(folder)["segments"][number]
    path = folder.parent / "replay" / segment["name"]
    content = _changed(load(path.read_bytes()), change)
    data = content if isinstance(content, bytes) else save(content)
    path.write_bytes(data)
    forge(folder, lambda m: m["segments"][number].update(size=len(data), sha256=sha256(data).hexdigest()))


def _changed(content: Any, change: Change | None) -> Any:
    other = change(content) if change else None
    return content if other is None else other
