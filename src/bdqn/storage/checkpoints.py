"""Checkpoints of a training run: the agent, its environments and its replay buffer.

`Checkpoints` is a directory that holds them, with the replay segments that they share. A learner loaded from it
continues bit for bit as if it had never stopped, on the same machine, with the same versions and threads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bdqn.qlearning.finite_checks import check_agent
from bdqn.storage import atomic, checkpoint_files, state_files
from bdqn.storage.checkpoint_files import CheckpointError, Manifest
from bdqn.storage.migrations import migrated
from bdqn.storage.origin import about, changes
from bdqn.storage.replay_segments import SEGMENT_NAME, ReplayFiles, restore
from bdqn.storage.safe_files import inside
from bdqn.storage.saved_agents import (
    AGENT,
    agent_files,
    as_checkpoint_error,
    build_learner,
    closing_on_error,
    names_in,
    read_state,
)

if TYPE_CHECKING:
    from bdqn.envs import Source
    from bdqn.learner import Learner
    from bdqn.replay.buffer import Replay

ENVIRONMENTS = ("environments.json", "environments.safetensors")
REPLAY_TAIL = "replay.safetensors"
RUN = "run.json"
SEGMENTS = "replay"  # the directory of replay segments
LEFTOVER = re.compile(rf"(damaged-)?gen-.*|{SEGMENTS}")  # final names of what a crash may leave here


@dataclass(frozen=True)
class Restored:
    """A restored learner, and what could not be restored."""

    learner: Learner
    run: Mapping[str, Any]  # the run's own state, saved with the learner
    restarted: Mapping[int, str] = field(default_factory=dict)  # environments that start a new episode, and why
    replay: bool = True  # whether the replay buffer was restored
    damaged: tuple[str, ...] = ()  # newer checkpoints that are damaged, and why
    changed: tuple[str, ...] = ()  # differences that make the continuation inexact


class Checkpoints:
    """A directory with the checkpoints of one training run: the newest ``keep``, and the best."""

    def __init__(self, folder: str | Path, *, keep: int = 3, save_replay: bool = True) -> None:
        self.folder = Path(folder).absolute()  # an environment may change the working directory
        self._keep, self._save_replay = keep, save_replay
        self._learner: Learner | None = None
        self._replay_files: ReplayFiles | None = None

    @property
    def _segments(self) -> Path:
        return inside(self.folder, SEGMENTS)

    def paths(self) -> list[Path]:
        """List all checkpoints, oldest first."""
        return checkpoint_files.checkpoints_in(self.folder)

    def write_segments(self, learner: Learner) -> None:
        """Write the replay buffer's complete segments. Regular calls leave little for ``save`` to write."""
        files = self._files(learner)
        if files is not None and files.seal():
            with suppress(OSError):
                self._clear()  # otherwise overwritten segments pile up until the next checkpoint

    def move(self, folder: Path) -> None:
        """Follow the directory to a new path."""
        self.folder = folder
        if self._replay_files is not None:
            self._replay_files.folder = folder / SEGMENTS

    def save(
        self,
        learner: Learner,
        run: Mapping[str, Any] | None = None,
        score: float | None = None,
        *,
        evaluation_due: bool = False,
    ) -> Path:
        """Write a checkpoint of the current state. It counts as saved only when all of it is on disk.

        Args:
            learner: The learner to save. A directory belongs to one learner.
            run: The run's own state, saved as JSON.
            score: Selects the best checkpoint. A checkpoint without a score is never the best.
            evaluation_due: An evaluation is still due at this decision, which may be saved again after it.
        """
        check_agent(learner.agent)
        files = self._files(learner)
        due = "refit" if learner.agent.fit_due else "evaluation" if evaluation_due else ""
        folder = self.folder / checkpoint_files.name_of(learner.num_timesteps, due)
        if folder.exists():  # the same state: training is deterministic
            with suppress(OSError):  # a crash may have prevented it
                self._clear()
            return folder
        members = agent_files(learner)
        members |= dict(zip(ENVIRONMENTS, state_files.to_files(learner.environment_state()), strict=True))
        members[RUN] = state_files.to_json(run or {})
        segments = []
        if files is not None:
            files.seal()
            members[REPLAY_TAIL] = files.tail()
            segments = files.needed()
        checkpoint_files.write(folder, learner.num_timesteps, about(learner), members, segments, score)
        with suppress(OSError):  # the new checkpoint is safe; clean up next time
            self._clear()
        return folder

    def load(
        self,
        env: Source | None = None,
        *,
        device: str = "cpu",
        network: torch.nn.Module | None = None,
        check: Callable[[Path, Mapping[str, Any]], None] | None = None,
    ) -> Restored:
        """Restore the newest valid checkpoint. Damaged ones are skipped, renamed and reported.

        Args:
            env: The environment, if it is not the registered one that the checkpoint names.
            device: Device of the network.
            network: The custom network that the agent was trained with.
            check: Raises CheckpointError if a checkpoint's run state, given with its path, cannot be continued. The
                checkpoint then counts as damaged.
        """
        damaged: list[str] = []
        paths, segments = self.paths(), self._segments
        for folder in reversed(paths):
            try:
                restored = self._load(folder, segments, env, device, network, check)
            except CheckpointError as error:
                damaged.append(str(error))
                continue
            for bad in paths[len(paths) - len(damaged) :]:
                atomic.set_aside(bad)
            self._learner = restored.learner
            return replace(restored, damaged=tuple(damaged))
        raise CheckpointError(
            f"{self.folder} holds no valid checkpoint: restore the damaged files from a copy, or start a new run. "
            + " ".join(damaged)
            if damaged
            else f"{self.folder} holds no checkpoint."
        )

    def _load(
        self,
        folder: Path,
        segments: Path,
        env: Source | None,
        device: str,
        network: torch.nn.Module | None,
        check: Callable[[Path, Mapping[str, Any]], None] | None,
    ) -> Restored:
        manifest = checkpoint_files.read(folder)
        agent, surroundings = read_state(folder, manifest, AGENT), read_state(folder, manifest, ENVIRONMENTS)
        with as_checkpoint_error(folder):
            run = json.loads(checkpoint_files.read_member(folder, manifest.member(RUN)))
            run = dict(migrated(RUN, run, manifest.format))
            due = ("refit",) if agent["refit_due"] else ("evaluation", "")
            names = [checkpoint_files.name_of(manifest.step, what) for what in due]
            if folder.name not in names or len(surroundings["obs"]) != manifest.about["num_envs"]:
                raise CheckpointError(f"{folder} does not match its manifest.")
        if check is not None:
            check(folder, run)
        replay = has_replay(manifest)
        learner = build_learner(folder, manifest, agent, env, device, network, {})
        with closing_on_error(learner), as_checkpoint_error(folder):
            learner.agent.load_state(agent)
            if replay:
                read_replay(folder, manifest, learner.agent.replay)
            restarted = learner.load_environment_state(surroundings, replay_is_new=not replay)
            changed = changes(manifest.about, about(learner))
        if replay and self._save_replay:
            self._replay_files = ReplayFiles(segments, learner.agent.replay, manifest.segments)
        return Restored(learner, run, restarted, replay, changed=changed)

    def _files(self, learner: Learner) -> ReplayFiles | None:
        """Return the writer of replay segments, or None if the replay buffer is not saved."""
        if self._learner is None:
            if self.paths():
                raise FileExistsError(
                    f"{self.folder} holds checkpoints of another training run: load() them, or use another directory."
                )
            if not all(map(SEGMENT_NAME.fullmatch, names_in(self._segments))):
                raise FileExistsError(
                    f"{self._segments} holds files that are not replay segments: choose another directory."
                )
            self._learner = learner
            atomic.discard(self._segments)
        if learner is not self._learner:
            raise ValueError(f"{self.folder} belongs to another learner.")
        if self._replay_files is not None and not self._replay_files.are_there():
            self._replay_files = None  # some were removed: write all of them again
        if self._save_replay and self._replay_files is None:
            self._replay_files = ReplayFiles(self._segments, learner.agent.replay)
        return self._replay_files

    def _clear(self) -> None:
        """Remove checkpoints that are neither recent nor the best, and segments that no recent one needs."""
        atomic.discard_leftovers(self.folder, LEFTOVER)
        manifests = {folder: manifest for folder in self.paths() if (manifest := _try_to_read(folder))}
        recent = list(manifests)[-self._keep :]
        scored = [(m.score, age, folder) for age, (folder, m) in enumerate(manifests.items()) if m.score is not None]
        kept = {*recent, *([max(scored)[2]] if scored else [])}
        for folder in manifests.keys() - kept:
            atomic.discard(folder)
        needed = {segment.name for folder in recent for segment in manifests[folder].segments}
        if self._replay_files is not None:
            needed |= {segment.name for segment in self._replay_files.needed()}
        for path in self._segments.glob("*.safetensors"):
            if path.name not in needed and SEGMENT_NAME.fullmatch(path.name):
                with suppress(OSError):  # a directory of this name stays
                    path.unlink()


def has_replay(manifest: Manifest) -> bool:
    """Whether a checkpoint includes the replay buffer."""
    return manifest.has(REPLAY_TAIL) or bool(manifest.segments)


def read_replay(folder: Path, manifest: Manifest, replay: Replay) -> None:
    """Restore a checkpoint's transitions into a new replay buffer."""
    tail = checkpoint_files.read_member(folder, manifest.member(REPLAY_TAIL))
    restore(replay, inside(folder.parent, SEGMENTS), manifest.segments, tail)


def _try_to_read(folder: Path) -> Manifest | None:
    with suppress(CheckpointError):
        return checkpoint_files.read(folder)
    return None
