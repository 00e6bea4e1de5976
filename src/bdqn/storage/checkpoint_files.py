"""One checkpoint on disk, a *generation*: a directory whose manifest vouches for every byte. No torch.

``manifest.json`` says what made it and gives the size and SHA-256 of every file that belongs to it, in the directory
or among the replay segments that generations share; ``manifest.sha256`` vouches for the manifest itself, in the
format of ``sha256sum``. Nothing is believed before it is checked, and nothing is ever executed.
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
from bdqn.storage.safe_files import is_count

FORMAT = 3
MANIFEST, SEAL = "manifest.json", "manifest.sha256"
LARGEST_MANIFEST = 16 << 20  # bytes; a hostile file is not read to its end to find that out
# What a manifest must say of what made it; more is not looked at.
ABOUT: dict[str, Any] = {
    **dict.fromkeys(("agent", "preset", "family"), str),
    **dict.fromkeys(("settings", "env_kwargs", "versions"), dict),
    **dict.fromkeys(("num_envs", "seed", "threads"), int),
    "env": (str, type(None)),
    "own_network": bool,
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # no separators, no leading dot: nothing leads elsewhere
DUE = ("refit", "evaluation", "")  # what a checkpoint was stopped before; in the order in which a run does them
_GENERATION = re.compile(r"gen-(\d{12})(?:-(refit|evaluation)-due)?")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class CheckpointError(ValueError):
    """A checkpoint that is damaged, foreign or incomplete; the message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Entry:
    """One file and what it must be."""

    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str, data: bytes) -> Entry:
        return cls(name, len(data), sha256(data).hexdigest())


@dataclass(frozen=True)
class Segment(Entry):
    """Frames ``start`` to ``start + frames`` of one environment's replay."""

    env: int
    start: int
    frames: int


@dataclass(frozen=True)
class Manifest:
    """What a generation says about itself."""

    step: int
    about: Mapping[str, Any]  # agent, environment, settings, versions: what is needed to build it again
    members: tuple[Entry, ...]
    segments: tuple[Segment, ...] = ()
    score: float | None = None

    def member(self, name: str) -> Entry:
        for entry in self.members:
            if entry.name == name:
                return entry
        raise CheckpointError(f"there is no {name} in this checkpoint.")

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
    """Write a generation; it appears under its name only when all of it is on the disk, the manifest last."""
    manifest = Manifest(
        step, about, tuple(Entry.of(name, data) for name, data in members.items()), tuple(segments), score
    )
    text = state_files.to_json({"format": FORMAT, "bdqn": version("bdqn"), **asdict(manifest)})
    seal = f"{sha256(text).hexdigest()}  {MANIFEST}\n".encode()
    atomic.write_directory(folder, {**members, MANIFEST: text, SEAL: seal})
    return manifest


def name_of(step: int, due: str = "") -> str:
    """After the decisions taken; a state that lacks what was ``due`` then has a name apart, so that both may stand."""
    return f"gen-{step:012d}" + (f"-{due}-due" if due else "")


def folder_of(run: Path) -> Path:
    """Where a run's checkpoints are, or will be."""
    folder = safe_files.inside(run, "checkpoints")
    if os.path.lexists(folder) and not folder.is_dir():
        raise safe_files.UnsafeFile(f"{folder} is no directory, where checkpoints are expected: move it away.")
    return folder


def all_in(folder: Path) -> list[Path]:
    """Every checkpoint in a directory, sound or not, the newest last; one that is a link is refused."""
    if not folder.is_dir():
        return []
    matches = [match for path in folder.iterdir() if (match := _GENERATION.fullmatch(path.name))]
    found = ((match[1], DUE.index(match[2] or ""), safe_files.inside(folder, match[0])) for match in matches)
    return [path for *_, path in sorted(found) if path.is_dir()]


def latest_step(folder: Path) -> int | None:
    """The decision of the newest checkpoint in a directory, from its name alone."""
    found = all_in(folder)
    return int(found[-1].name[4:16]) if found else None


def read(folder: Path) -> Manifest:
    """A generation's manifest, its seal and every field of it checked."""
    if (folder / "tensors.safetensors").exists() and not (folder / SEAL).exists():  # which format 1 did not have
        raise CheckpointError(f"{folder} is written in format 1; this is bdqn {version('bdqn')}, which reads {FORMAT}.")
    text = _read_at_most(folder / MANIFEST, LARGEST_MANIFEST)
    seal = _read_at_most(folder / SEAL, 1024)
    if seal != f"{sha256(text).hexdigest()}  {MANIFEST}\n".encode():
        raise CheckpointError(f"{folder / MANIFEST} is damaged: {SEAL} does not fit it.")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{folder / MANIFEST} is no JSON: {error}") from error
    return _parse(folder, content)


def read_member(folder: Path, entry: Entry) -> bytes:
    """A file's content, which is exactly what its entry says. Its size is compared before it is read."""
    data = _read_at_most(folder / entry.name, entry.size)
    if len(data) != entry.size or sha256(data).hexdigest() != entry.sha256:
        raise CheckpointError(
            f"{folder / entry.name} is damaged, or belongs to another generation: its SHA-256 is not the manifest's."
        )
    return data


def is_generation(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def _read_at_most(path: Path, limit: int) -> bytes:
    """A plain file of at most ``limit`` bytes; too little memory for it is no fault of the checkpoint."""
    try:
        return safe_files.read(path, limit)
    except safe_files.UnsafeFile as error:
        raise CheckpointError(str(error)) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.") from error


def _parse(folder: Path, content: Any) -> Manifest:
    """A manifest from JSON, or an error that names the field."""
    where = folder / MANIFEST
    if not isinstance(content, dict) or "format" not in content:
        raise CheckpointError(f"{where} is no checkpoint of bdqn.")
    if content["format"] != FORMAT:
        raise CheckpointError(
            f"{where} is written in format {content['format']!r:.80} by bdqn {content.get('bdqn')!r:.80}; this is bdqn "
            f"{version('bdqn')}, which reads format {FORMAT}."
        )
    try:
        members = tuple(_entry(Entry, item) for item in content["members"])
        segments = tuple(_entry(Segment, item) for item in content["segments"])
        step, about, score = content["step"], content["about"], content["score"]
        if not is_count(step) or not (score is None or (isinstance(score, int | float) and isfinite(score))):
            raise TypeError("step or score is no number")
        for name, kind in ABOUT.items():
            value = about[name]
            if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or value < 0)):
                raise TypeError(f"{name} is {value!r:.80}")
        if len({entry.name for entry in (*members, *segments)}) < len(members) + len(segments):
            raise TypeError("a file is named twice")
    except (KeyError, TypeError, OverflowError) as error:
        raise CheckpointError(f"{where} does not describe a checkpoint: {type(error).__name__}: {error}.") from error
    return Manifest(step, about, members, segments, score)


E = TypeVar("E", bound=Entry)


def _entry(cls: type[E], item: Any) -> E:
    entry = cls(**item)
    numbers = [value for name, value in item.items() if name not in ("name", "sha256")]
    if not (isinstance(entry.name, str) and _NAME.fullmatch(entry.name)):
        raise TypeError(f"{entry.name!r} is no file name")
    if not (isinstance(entry.sha256, str) and _DIGEST.fullmatch(entry.sha256) and all(map(is_count, numbers))):
        raise TypeError(f"the entry of {entry.name} is malformed")
    return entry
