"""Files reach the disk in an order that a power cut cannot break.

A recorder around the calls sees that whatever a rename vouches for was flushed before it. Then the power is cut, in two
models that are as bad as the standard allows. Of a file only what was there at its last fsync is left; the names in a
directory are those that it had at its own, or else they are all there, whatever is in the files. From every such disk
the run goes on, and ends as if nothing had been.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bdqn.cli import main
from bdqn.storage.checkpoints import Checkpoints
from support.cartpole import deterministic_files, train

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="/proc tells which file is flushed")

STEPS = 600


@dataclass(frozen=True)
class Event:
    kind: str  # write, fsync, mkdir or rename
    path: Path
    target: Path | None = None


Tree = dict[str, bytes | None]  # None for a directory


class Disk:
    """Watches what is done to the files under ``root``, and knows what a power cut would leave of them."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.events: list[Event] = []
        self.trees: list[Tree] = []  # what would be left, before each fsync (all names) and after it (flushed names)
        self.commits: dict[int, int] = {}  # decision of a checkpoint: how many trees there were when it was written
        self._files: dict[int, bytes] = {}
        self._folders: dict[int, dict[str, tuple[int, bool]]] = {}
        self._held: dict[int, int] = {}
        for name in ("write", "fsync"):
            monkeypatch.setattr(os, name, self._watching(name, getattr(os, name)))
        for name in ("replace", "rename", "mkdir"):
            monkeypatch.setattr(os, name, self._watching_names(name, getattr(os, name)))
        monkeypatch.setattr(Path, "open", self._watching_open(Path.open))
        monkeypatch.setattr(Checkpoints, "save", self._watching_save(Checkpoints.save))

    def close(self) -> None:
        for descriptor in self._held.values():
            os.close(descriptor)

    def _watching(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, *rest: Any) -> Any:
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if kind == "fsync" and path.is_relative_to(self.root):
                self.trees.append(dict(self._all_names(self.root, "")))
            answer = real(descriptor, *rest)
            if path.is_relative_to(self.root):
                self.events.append(Event(kind, path))
                if kind == "fsync":
                    self._flush(descriptor, path)
            return answer

        return call

    def _watching_names(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **kwargs: Any) -> Any:
            answer = real(path, *rest, **kwargs)
            source = _place(path, kwargs.get("dir_fd", kwargs.get("src_dir_fd")))
            target = _place(rest[0], kwargs.get("dst_dir_fd")) if name != "mkdir" else None
            self.events.append(Event("mkdir" if name == "mkdir" else "rename", source, target))
            return answer

        return call

    def _watching_open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, mode: str = "r", *rest: Any, **kwargs: Any) -> Any:
            if mode != "r" and "b" in mode and "w" in mode:
                self.events.append(Event("write", path))
            return real(path, mode, *rest, **kwargs)

        return call

    def _watching_save(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(checkpoints: Checkpoints, learner: Any, *rest: Any, **options: Any) -> Any:
            answer = real(checkpoints, learner, *rest, **options)
            self.commits.setdefault(learner.num_timesteps, len(self.trees))
            return answer

        return call

    def _flush(self, descriptor: int, path: Path) -> None:
        number = os.fstat(descriptor).st_ino
        self._held.setdefault(number, os.dup(descriptor))  # while it is open, no other file gets its number
        if path.is_dir():
            with os.scandir(path) as entries:
                self._folders[number] = {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}
        else:
            self._files[number] = path.read_bytes()
        self.trees.append(dict(self._flushed_names(self.root.stat().st_ino, "")))

    def _all_names(self, folder: Path, prefix: str) -> Iterator[tuple[str, bytes | None]]:
        for path in sorted(folder.iterdir()):
            yield prefix + path.name, None if path.is_dir() else self._files.get(path.stat().st_ino, b"")
            if path.is_dir():
                yield from self._all_names(path, f"{prefix}{path.name}/")

    def _flushed_names(self, folder: int, prefix: str) -> Iterator[tuple[str, bytes | None]]:
        for name, (number, is_folder) in sorted(self._folders.get(folder, {}).items()):
            yield prefix + name, None if is_folder else self._files.get(number, b"")
            if is_folder:
                yield from self._flushed_names(number, f"{prefix}{name}/")


def _place(path: Any, folder: int | None) -> Path:
    """A path that may count from a directory which is held open."""
    return Path(path) if folder is None else Path(os.readlink(f"/proc/self/fd/{folder}")) / path


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    """A training in ``run``, and what happened on the disk."""
    root = tmp_path_factory.mktemp("disk")
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(root, patch)
        assert main(train(root / "run", STEPS)) == 0
    yield disk
    disk.close()


def test_every_rename_vouches_for_what_is_flushed_and_is_flushed_itself(disk: Disk) -> None:
    renames = [i for i, event in enumerate(disk.events) if event.kind == "rename" and event.target]
    kept = [i for i in renames if not disk.events[i].target.name.startswith(".tmp-")]  # others are on their way out
    assert len(kept) > 10
    for at in kept:
        source, target = disk.events[at].path, disk.events[at].target
        own = [event for event in disk.events[:at] if source in (event.path, event.path.parent)]
        begun = max((i for i, event in enumerate(own) if event == Event("mkdir", source)), default=-1)
        own = own[begun + 1 :]
        files = list(dict.fromkeys(event.path for event in own if event.kind == "write"))
        assert files
        for path in files:
            steps = [event.kind for event in own if event.path == path]
            assert steps[-2:] == ["write", "fsync"], path
        if begun >= 0:  # a directory: it is flushed after all of its files
            assert own[-1] == Event("fsync", source)
        following = disk.events[at + 1]
        assert following == Event("fsync", target.parent), target


def test_a_manifest_is_written_after_all_that_it_names_and_its_seal_last(disk: Disk) -> None:
    checkpoints = disk.root / "run" / "checkpoints"
    generations = {
        event.target: i
        for i, event in enumerate(disk.events)
        if event.target and event.target.parent == checkpoints and event.target.name.startswith("gen-")
    }
    assert len(generations) == 3
    for folder, renamed in generations.items():
        files = [
            event.path.name
            for event in disk.events
            if event.kind == "write" and event.path.parent.name == f".tmp-{folder.name}"
        ]
        assert files[-2:] == ["manifest.json", "manifest.sha256"]
        assert len(files) == len(set(files)) == 8
        before = disk.events[:renamed]
        # From the disk as it was: the run keeps but two.
        after = disk.trees[disk.commits[int(folder.name[4:])] - 1]
        manifest = json.loads(after[f"run/checkpoints/{folder.name}/manifest.json"] or b"")
        assert manifest["segments"]
        for segment in manifest["segments"]:
            path = checkpoints / "replay" / segment["name"]
            moved = max(i for i, event in enumerate(before) if event.target == path)
            assert Event("fsync", path.parent) in before[moved:]
        for name in ("episodes.csv", "metrics.csv", "timing.csv", "monitor.csv", "evaluations.csv"):
            steps = [event.kind for event in before if event.path == disk.root / "run" / name]
            assert not steps or steps[-1] == "fsync", name
        assert Event("fsync", disk.root / "run" / "metrics.csv") in before


def put(tree: Tree, folder: Path) -> Path:
    for name, data in tree.items():
        if data is None:
            (folder / name).mkdir(parents=True)
        else:
            (folder / name).write_bytes(data)
    return folder


def goes_on(tree: Tree, place: Path, expected: dict[str, bytes]) -> None:
    """From what a power cut left, the run ends as if there had been none."""
    folder = put(tree, place) / "run"
    command = ["resume", str(folder), "--quiet"] if "run/config.toml" in tree else [*train(folder, STEPS)]
    assert main(command) == 0
    # That something superfluous was removed is not flushed: of a run that was over, it may be back.
    assert deterministic_files(folder).items() >= expected.items()
    shutil.rmtree(place)


def test_what_is_saved_survives_a_power_cut(disk: Disk, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    expected = deterministic_files(disk.root / "run")
    assert sorted(disk.commits) == [200, 400, 600]
    for step, moment in disk.commits.items():
        tree = disk.trees[moment - 1]
        assert f"run/checkpoints/gen-{step:012d}/manifest.sha256" in tree
        place = put(tree, tmp_path / f"inspected-{step}")
        assert main(["inspect", str(place / "run")]) == 0
        goes_on(tree, tmp_path / f"cut-{step}", expected)
    assert capfd.readouterr().err == ""


@pytest.mark.long
def test_a_power_cut_between_any_two_flushes_costs_one_interval_at_most(
    disk: Disk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = deterministic_files(disk.root / "run")
    for moment, tree in enumerate(disk.trees):
        committed = max((step for step, after in disk.commits.items() if after <= moment + 1), default=0)
        assert not committed or f"run/checkpoints/gen-{committed:012d}/manifest.sha256" in tree
        goes_on(tree, tmp_path / f"cut-{moment}", expected)
    assert capfd.readouterr().err == ""
    print(f"The power was cut before and after each of {len(disk.trees) // 2} flushes.")
