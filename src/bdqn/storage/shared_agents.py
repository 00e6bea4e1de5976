"""Agents to share: a saved agent with its model card, in a directory or on the Hugging Face hub.

Pushing and pulling are one operation: an agent is read from one place, verified, and written anew in another. So
nothing but the agent's own files is copied, and none that `bdqn.load` would refuse to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bdqn.config.settings import SettingError
from bdqn.storage import atomic, calibrations, checkpoint_files, safe_files, state_files
from bdqn.storage.hub import PREFIX, Hub
from bdqn.storage.saved_agents import (
    AGENT,
    CARD,
    FILES,
    as_checkpoint_error,
    names_in,
    read_state,
    replaceable,
    saved_files,
)


def read_agent(folder: Path) -> dict[str, bytes]:
    """Read the files of a saved agent or of a checkpoint, as a saved agent of today's format, without a card."""
    manifest = checkpoint_files.read(folder)
    state = read_state(folder, manifest, AGENT)
    with as_checkpoint_error(folder):
        members = dict(zip(AGENT, state_files.to_files(state), strict=True))
    return saved_files(manifest.step, manifest.about, members, calibrations.read(folder, manifest))


def read_card(folder: Path) -> str | None:
    """Read the card of a shared agent: someone may have added to it. None if there is none."""
    try:
        return safe_files.read_text(folder / CARD, safe_files.CONFIG)
    except FileNotFoundError:
        return None


class Folder:
    """A directory, such as one on a file share."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def address(self) -> str:
        """Empty: it has one of its own on each machine."""
        return ""

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @contextmanager
    def opened(self) -> Iterator[Path]:
        """Give a directory with the agent's files for the duration of the block."""
        if not checkpoint_files.is_checkpoint(self.path):
            problem = "holds no saved agent" if self.path.exists() else "does not exist"
            raise SettingError(f"{self.path} {problem}: name the directory that bdqn push wrote.")
        yield self.path

    def write(self, files: Mapping[str, bytes], *, replace: bool) -> None:
        """Write the files. Refuses to overwrite an agent without being told to, and anything else in any case."""
        if not replaceable(self.path, FILES | {CARD}):
            raise SettingError(f"{self.path} exists and is not a saved agent: choose another directory.")
        if names_in(self.path) and not replace:
            raise SettingError(f"{self.path} holds an agent: choose another directory, or pass --replace.")
        atomic.make_directory(self.path.parent)
        atomic.replace_directory(self.path, files)


def place(address: str) -> Folder | Hub:
    """Where agents are shared: ``hf://owner/name``, or a directory."""
    return Hub(address, FILES | {CARD}) if address.startswith(PREFIX) else Folder(Path(address))
