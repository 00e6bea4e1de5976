"""One checkpoint on disk: a directory whose manifest covers every byte. Imports no torch.

``manifest.json`` describes the agent and lists the size and SHA-256 of every file, both in the directory and among
the replay segments that checkpoints share. ``manifest.sha256`` covers the manifest itself, in the format of
``sha256sum``. Every file is verified before use, and nothing is ever executed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from bdqn.storage import atomic, safe_files, state_files
from bdqn.storage.migrations import FORMAT, is_readable
from bdqn.storage.safe_files import is_count

MANIFEST, CHECKSUM = "manifest.json", "manifest.sha256"
LARGEST_MANIFEST = 16 << 20  # bytes; a larger file is refused unread
# The required entries of a manifest's "about" and their types. Other entries are ignored.
ABOUT: dict[str, Any] = {
    **dict.fromkeys(("agent", "preset", "family"), str),
    **dict.fromkeys(("settings", "env_kwargs", "versions"), dict),
    **dict.fromkeys(("num_envs", "seed", "threads"), int),
    "env": (str, type(None)),
    "own_network": bool,
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # no separator, no leading dot: it cannot leave the folder
DUE = ("refit", "evaluation", "")  # work still pending when a checkpoint was taken, in the order in which a run does it
_DIRECTORY_NAME = re.compile(r"gen-(\d{12})(?:-(refit|evaluation)-due)?")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class CheckpointError(ValueError):
    """Raised for a damaged, foreign or incomplete checkpoint. The message names the file and the problem."""


@dataclass(frozen=True)
class Entry:
    """A file of a checkpoint, with its expected size and SHA-256."""

    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str, data: bytes) -> Entry:
        return cls(name, len(data), sha256(data).hexdigest())


@dataclass(frozen=True)
class Segment(Entry):
    """A file with frames ``start`` to ``start + frames`` of one environment's replay."""

    env: int
    start: int
    frames: int


@dataclass(frozen=True)
class Manifest:
    """The content of ``manifest.json``."""

    step: int
    about: Mapping[str, Any]  # agent, environment, settings, versions: everything needed to rebuild the learner
    members: tuple[Entry, ...]
    segments: tuple[Segment, ...] = ()
    score: float | None = None
    format: int = FORMAT

    def member(self, name: str) -> Entry:
        for entry in self.members:
            if entry.name == name:
                return entry
        raise CheckpointError(f"the checkpoint has no file {name}.")

    def has(self, name: str) -> bool:
        return any(entry.name == name for entry in self.members)


def write(
    folder: Path,
    step: int,
    about: Mapping[str, Any],
    members: Mapping[str, bytes],
    segments: Sequence[Segment] = (),
    score: float | None = None,
) -> Manifest:
    """Write a checkpoint. It appears under its name only when all files are on disk, the manifest last."""
    manifest, files = to_files(step, about, members, segments, score)
    atomic.write_directory(folder, files)
    return manifest


def to_files(
    step: int,
    about: Mapping[str, Any],
    members: Mapping[str, bytes],
    segments: Sequence[Segment] = (),
    score: float | None = None,
) -> tuple[Manifest, dict[str, bytes]]:
    """Return a checkpoint's manifest, and all of its files in the order in which they are written."""
    manifest = Manifest(
        step, about, tuple(Entry.of(name, data) for name, data in members.items()), tuple(segments), score
    )
    text = state_files.to_json({"format": FORMAT, "bdqn": version("bdqn")} | asdict(manifest))
    seal = f"{sha256(text).hexdigest()}  {MANIFEST}\n".encode()
    return manifest, {**members, MANIFEST: text, CHECKSUM: seal}


def name_of(step: int, due: str = "") -> str:
    """Name a checkpoint after its decision count. With work still ``due`` the name differs, so both can coexist."""
    return f"gen-{step:012d}" + (f"-{due}-due" if due else "")


def folder_of(run: Path) -> Path:
    """Return the directory of a run's checkpoints. It need not exist yet."""
    folder = safe_files.inside(run, "checkpoints")
    if os.path.lexists(folder) and not folder.is_dir():
        raise safe_files.UnsafeFile(f"{folder} holds checkpoints, but is not a directory: move it away.")
    return folder


def checkpoints_in(folder: Path) -> list[Path]:
    """List all checkpoints in a directory, valid or not, newest last. Symbolic links are refused."""
    if not folder.is_dir():
        return []
    matches = [match for path in folder.iterdir() if (match := _DIRECTORY_NAME.fullmatch(path.name))]
    found = ((match[1], DUE.index(match[2] or ""), safe_files.inside(folder, match[0])) for match in matches)
    return [path for *_, path in sorted(found) if path.is_dir()]


def latest_step(folder: Path) -> int | None:
    """Return the decision count of the newest checkpoint in a directory, from its name alone."""
    found = checkpoints_in(folder)
    return int(found[-1].name[4:16]) if found else None


def read(folder: Path) -> Manifest:
    """Read a checkpoint's manifest. Verifies its checksum and every field."""
    if (folder / "tensors.safetensors").exists() and not (folder / CHECKSUM).exists():  # format 1 had no checksum
        raise CheckpointError(f"{folder} has format 1, but bdqn {version('bdqn')} reads format {FORMAT}.")
    text = _read_at_most(folder / MANIFEST, LARGEST_MANIFEST)
    seal = _read_at_most(folder / CHECKSUM, 1024)
    if seal != f"{sha256(text).hexdigest()}  {MANIFEST}\n".encode():
        raise CheckpointError(f"{folder / MANIFEST} is damaged: its SHA-256 differs from the one in {CHECKSUM}.")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{folder / MANIFEST} is not valid JSON: {error}") from error
    return _parse(folder, content)


def read_member(folder: Path, entry: Entry) -> bytes:
    """Read a file and verify its size and SHA-256. The size is checked before reading."""
    data = _read_at_most(folder / entry.name, entry.size)
    if len(data) != entry.size or sha256(data).hexdigest() != entry.sha256:
        raise CheckpointError(
            f"{folder / entry.name} is damaged or from another checkpoint: its SHA-256 differs from the manifest's."
        )
    return data


def is_checkpoint(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def _read_at_most(path: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes. Running out of memory is not a CheckpointError."""
    try:
        return safe_files.read(path, limit)
    except safe_files.UnsafeFile as error:
        raise CheckpointError(str(error)) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.") from error


def _parse(folder: Path, content: Any) -> Manifest:
    """Parse and check a manifest's JSON. Errors name the field."""
    where = folder / MANIFEST
    if not isinstance(content, dict) or "format" not in content:
        raise CheckpointError(f"{where} is not a bdqn checkpoint.")
    if not is_readable(content["format"]):
        raise CheckpointError(
            f"{where} has format {content['format']!r:.80}, written by bdqn {content.get('bdqn')!r:.80}, "
            f"but bdqn {version('bdqn')} reads format {FORMAT}: install the version that wrote it, or a later one."
        )
    try:
        members = tuple(_entry(Entry, item) for item in content["members"])
        segments = tuple(_entry(Segment, item) for item in content["segments"])
        step, about, score = content["step"], content["about"], content["score"]
        if not is_count(step) or not (score is None or (isinstance(score, int | float) and isfinite(score))):
            raise TypeError("step or score is not a number")
        for name, kind in ABOUT.items():
            value = about[name]
            if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or value < 0)):
                raise TypeError(f"{name} is {value!r:.80}")
        if len({entry.name for entry in (*members, *segments)}) < len(members) + len(segments):
            raise TypeError("a file is listed twice")
    except (KeyError, TypeError, OverflowError) as error:
        raise CheckpointError(f"{where} is not a valid manifest: {type(error).__name__}: {error}.") from error
    return Manifest(step, about, members, segments, score, content["format"])


E = TypeVar("E", bound=Entry)


def _entry(cls: type[E], item: Any) -> E:
    entry = cls(**item)
    numbers = [value for name, value in item.items() if name not in ("name", "sha256")]
    if not (isinstance(entry.name, str) and _NAME.fullmatch(entry.name)):
        raise TypeError(f"{entry.name!r} is not a valid file name")
    if not (isinstance(entry.sha256, str) and _DIGEST.fullmatch(entry.sha256) and all(map(is_count, numbers))):
        raise TypeError(f"the entry for {entry.name} is malformed")
    return entry
