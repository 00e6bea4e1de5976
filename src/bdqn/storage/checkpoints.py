"""Learners on disk: an agent alone to be kept and shared, or everything, so that training goes on exactly.

``Checkpoints`` is a directory of generations (see `generation`) and of the replay segments that they share. A learner
loaded from it goes on bit for bit as if it had never stopped, on the same machine, versions and threads.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch

from bdqn.agents.bdqn import PosteriorSettings
from bdqn.agents.bdqn_deep import Settings as DeepSettings
from bdqn.config.resolve import Configuration, configure
from bdqn.config.settings import SettingError, Supervision, build
from bdqn.storage import atomic, checkpoint_files, state_files
from bdqn.storage.checkpoint_files import CheckpointError, Manifest
from bdqn.storage.origin import about, changes
from bdqn.storage.replay_segments import SEGMENT_NAME, ReplayFiles, restore
from bdqn.storage.safe_files import inside, is_count

if TYPE_CHECKING:
    from bdqn.envs import Source
    from bdqn.learner import Learner
    from bdqn.replay.buffer import Replay

AGENT = ("agent.json", "agent.safetensors")
ENVIRONMENTS = ("environments.json", "environments.safetensors")
REPLAY_TAIL = "replay.safetensors"
RUN = "run.json"
SEGMENTS = "replay"  # the directory of replay segments
LEFTOVER = re.compile(rf"(damaged-)?gen-.*|{SEGMENTS}")  # what a crash may leave among checkpoints, under another name


# --- an agent alone -----------------------------------------------------------------------------------------


def save(learner: Learner, path: str | Path) -> None:
    """Write a learner's agent; an agent saved there before is replaced, anything else is refused."""
    folder = Path(path)
    new = folder.with_name(f"{atomic.TEMPORARY}new-{folder.name}")
    old = folder.with_name(f"{atomic.TEMPORARY}old-{folder.name}")
    # The directory is replaced as a whole, so nothing else may be in it; a crash may have left a part of one.
    complete = {*AGENT, checkpoint_files.MANIFEST, checkpoint_files.SEAL}
    if not (_names_in(folder) in (set(), complete) and all(_names_in(left) <= complete for left in (new, old))):
        raise FileExistsError(f"{folder} exists and is no saved agent: choose another path.")
    learner.agent.check_finite()
    atomic.discard(new)
    checkpoint_files.write(new, learner.num_timesteps, about(learner), _agent_files(learner))
    atomic.discard(old)
    if folder.exists():
        folder.rename(old)  # until the next line both are whole, and neither stands under the name
    new.rename(folder)
    atomic.flush_directory(folder.parent)
    atomic.discard(old)


def load(
    path: str | Path,
    env: Source | None = None,
    *,
    device: str = "cpu",
    network: torch.nn.Module | None = None,
    **settings: Any,
) -> Learner:
    """A learner with a saved agent, or with the newest of a run or of its checkpoints; its replay memory is empty.

    Give ``env`` (and ``network``) again if it was not made from an id. ``settings`` replace saved ones, such as a
    buffer_size that fits here.
    """
    folder = find_agent(Path(path))
    manifest = checkpoint_files.read(folder)
    state = _read_state(folder, manifest, AGENT)
    learner = _build(folder, manifest, state, env, device, network, settings)
    with _closing_on_error(learner), _as_checkpoint_error(folder):
        learner.agent.load_state(state)
    return learner


def find_agent(path: Path, *, best: bool = False) -> Path:
    """The directory of a saved agent: ``path`` itself, or the newest (the ``best``) sound generation of a run."""
    if checkpoint_files.is_generation(path):
        return path
    sound: list[tuple[float, int, Path]] = []
    problems = []
    for folder in (*checkpoint_files.all_in(path), *checkpoint_files.all_in(checkpoint_files.folder_of(path))):
        try:
            manifest = checkpoint_files.read(folder)
            for name in AGENT:
                checkpoint_files.read_member(folder, manifest.member(name))
            score = float("-inf") if manifest.score is None or not best else manifest.score
            sound.append((score, len(sound), folder))  # of equal ones the newest
        except CheckpointError as error:
            problems.append(str(error))
    if sound:
        return max(sound)[-1]
    if problems:
        raise CheckpointError(f"No checkpoint of {path} is sound. " + " ".join(problems))
    problem = "holds neither a saved agent nor a run with a checkpoint" if path.exists() else "does not exist"
    raise FileNotFoundError(f"{path} {problem}: give the directory that bdqn train printed, or that save() wrote.")


def has_replay(manifest: Manifest) -> bool:
    """Whether a checkpoint holds the replay memory too."""
    return manifest.has(REPLAY_TAIL) or bool(manifest.segments)


def read_replay(folder: Path, manifest: Manifest, replay: Replay) -> None:
    """Fill a new replay memory with a checkpoint's."""
    tail = checkpoint_files.read_member(folder, manifest.member(REPLAY_TAIL))
    restore(replay, inside(folder.parent, SEGMENTS), manifest.segments, tail)


# --- everything ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Restored:
    """A learner as it was, and what could not be."""

    learner: Learner
    run: Mapping[str, Any]  # what was saved beside it
    restarted: Mapping[int, str] = field(default_factory=dict)  # environments that began a new episode, and why
    replay: bool = True  # whether the replay memory came back
    damaged: tuple[str, ...] = ()  # newer checkpoints that could not be used, and why
    changed: tuple[str, ...] = ()  # what exactness depends on, and is not as it was


class Checkpoints:
    """A directory of checkpoints of one training: the newest ``keep`` of them, and the best."""

    def __init__(self, folder: str | Path, *, keep: int = 3, save_replay: bool = True) -> None:
        self.folder = Path(folder).absolute()  # an environment may change the directory it works in
        self._keep, self._save_replay = keep, save_replay
        self._learner: Learner | None = None
        self._replay_files: ReplayFiles | None = None

    @property
    def _segments(self) -> Path:
        return inside(self.folder, SEGMENTS)

    def generations(self) -> list[Path]:
        """All that there are, oldest first."""
        return checkpoint_files.all_in(self.folder)

    def keep_up(self, learner: Learner) -> None:
        """Write what the replay memory has completed; called now and then, it leaves little for ``save`` to do."""
        files = self._files(learner)
        if files is not None and files.seal():
            with suppress(OSError):
                self._clear()  # what the memory has moved past since the last checkpoint would pile up

    def move(self, folder: Path) -> None:
        """Go on in the same directory under another path."""
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
        """Write a checkpoint after the current decision; nothing counts as saved before all of it is on the disk.

        ``run`` is kept beside it, as JSON; ``score`` is what the best one is chosen by: one without never is.
        ``evaluation_due``: the same decision may be saved again, with what an evaluation that is due now adds to it.
        """
        learner.agent.check_finite()
        files = self._files(learner)
        due = "refit" if learner.agent.fit_due else "evaluation" if evaluation_due else ""
        folder = self.folder / checkpoint_files.name_of(learner.num_timesteps, due)
        if folder.exists():  # this very state, then: what comes after it follows from it
            with suppress(OSError):  # a crash may have come before that
                self._clear()
            return folder
        members = _agent_files(learner)
        members |= dict(zip(ENVIRONMENTS, state_files.to_files(learner.environment_state()), strict=True))
        members[RUN] = state_files.to_json(run or {})
        segments = []
        if files is not None:
            files.seal()
            members[REPLAY_TAIL] = files.tail()
            segments = files.needed()
        checkpoint_files.write(folder, learner.num_timesteps, about(learner), members, segments, score)
        with suppress(OSError):  # the new one is safe; what is superfluous can go next time
            self._clear()
        return folder

    def load(
        self, env: Source | None = None, *, device: str = "cpu", network: torch.nn.Module | None = None
    ) -> Restored:
        """The newest sound checkpoint; damaged ones are passed over, set aside and reported."""
        damaged: list[str] = []
        generations, segments = self.generations(), self._segments
        for folder in reversed(generations):
            try:
                restored = self._load(folder, segments, env, device, network)
            except CheckpointError as error:
                damaged.append(str(error))
                continue
            for bad in generations[len(generations) - len(damaged) :]:
                atomic.discard(aside := bad.with_name(f"damaged-{bad.name}"))  # one that went bad before
                bad.rename(aside)
            self._learner = restored.learner
            return replace(restored, damaged=tuple(damaged))
        raise CheckpointError(
            f"{self.folder} holds no sound checkpoint. " + " ".join(damaged)
            if damaged
            else f"{self.folder} holds no checkpoint."
        )

    def _load(
        self, folder: Path, segments: Path, env: Source | None, device: str, network: torch.nn.Module | None
    ) -> Restored:
        manifest = checkpoint_files.read(folder)
        agent, surroundings = _read_state(folder, manifest, AGENT), _read_state(folder, manifest, ENVIRONMENTS)
        with _as_checkpoint_error(folder):
            run = dict(json.loads(checkpoint_files.read_member(folder, manifest.member(RUN))))
            due = ("refit",) if agent["refit_due"] else ("evaluation", "")
            names = [checkpoint_files.name_of(manifest.step, what) for what in due]
            if folder.name not in names or len(surroundings["obs"]) != manifest.about["num_envs"]:
                raise CheckpointError(f"{folder} is not what its manifest says it is.")
        replay = has_replay(manifest)
        learner = _build(folder, manifest, agent, env, device, network, {})
        with _closing_on_error(learner), _as_checkpoint_error(folder):
            learner.agent.load_state(agent)
            if replay:
                read_replay(folder, manifest, learner.agent.replay)
            restarted = learner.load_environment_state(surroundings, replay_is_new=not replay)
            changed = changes(manifest.about, about(learner))
        if replay and self._save_replay:
            self._replay_files = ReplayFiles(segments, learner.agent.replay, manifest.segments)
        return Restored(learner, run, restarted, replay, changed=changed)

    def _files(self, learner: Learner) -> ReplayFiles | None:
        """The replay memory's durable copy; one directory belongs to one training."""
        if self._learner is None:
            if self.generations():
                raise FileExistsError(
                    f"{self.folder} holds another training's checkpoints: load() it, or go elsewhere."
                )
            if not all(map(SEGMENT_NAME.fullmatch, _names_in(self._segments))):
                raise FileExistsError(
                    f"{self._segments} holds files that are no replay segments: choose another directory."
                )
            self._learner = learner
            atomic.discard(self._segments)
        if learner is not self._learner:
            raise ValueError(f"{self.folder} belongs to another learner.")
        if self._replay_files is not None and not self._replay_files.are_there():
            self._replay_files = None  # somebody has removed some: all of them are written again
        if self._save_replay and self._replay_files is None:
            self._replay_files = ReplayFiles(self._segments, learner.agent.replay)
        return self._replay_files

    def _clear(self) -> None:
        """Remove what is neither recent nor the best, and segments that no recent checkpoint needs."""
        atomic.discard_leftovers(self.folder, LEFTOVER)
        manifests = {folder: manifest for folder in self.generations() if (manifest := _try_to_read(folder))}
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
                path.unlink()


# --- helpers ------------------------------------------------------------------------------------------------


def _names_in(folder: Path) -> set[str]:
    """What a directory holds: nothing if it is not there; a file holds itself."""
    if folder.is_dir():
        return {path.name for path in folder.iterdir()}
    return {folder.name} if os.path.lexists(folder) else set()


def _agent_files(learner: Learner) -> dict[str, bytes]:
    return dict(zip(AGENT, state_files.to_files(learner.agent.state()), strict=True))


def _read_state(folder: Path, manifest: Manifest, names: tuple[str, str]) -> Any:
    text, arrays = (checkpoint_files.read_member(folder, manifest.member(name)) for name in names)
    with _as_checkpoint_error(folder):
        return state_files.from_files(text, arrays)


def _build(
    folder: Path,
    manifest: Manifest,
    state: Mapping[str, Any],
    env: Source | None,
    device: str,
    network: torch.nn.Module | None,
    settings: Mapping[str, Any],
) -> Learner:
    """A new learner of the kind that was saved."""
    from bdqn.learner import Learner

    origin = manifest.about
    with _as_checkpoint_error(folder):
        configuration = configure(
            origin["agent"],
            origin["family"],
            origin["preset"].removesuffix(f"-{origin['family']}"),
            settings,
            saved=origin["settings"],
        )
        _check_size(configuration, manifest, state)
        source, kwargs = origin["env"], origin["env_kwargs"]
        supervision = build(Supervision, origin.get("supervision", {}))
    if env is None and source is None:
        raise SettingError(f"{folder} was not trained on a registered environment: give it again (env=...).")
    if origin["own_network"] and network is None:
        raise SettingError(f"{folder} was trained with a network of your own: give it again (network=...).")
    chosen = trusted(source, folder) if env is None else env
    try:
        return Learner(
            configuration,
            chosen,
            seed=origin["seed"],
            num_envs=origin["num_envs"],
            device=device,
            network=network,
            env_kwargs=kwargs if isinstance(chosen, str) else None,
            supervision=supervision,
            saved=state["online"],
        )
    except SettingError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, gym.error.Error) as error:
        raise SettingError(f"{folder} cannot be made again: {type(error).__name__}: {error}") from error


def trusted(env_id: str, where: str | Path) -> str:
    """An environment's id that was read from a file, unless making it would import a module that the file chose."""
    if ":" in env_id:
        raise SettingError(
            f"{where} names the environment {env_id}, which imports a module. Files do not decide what is imported: "
            f"give it again (env={env_id!r}, or --env {env_id})."
        )
    return env_id


def _check_size(configuration: Configuration, manifest: Manifest, state: Mapping[str, Any]) -> None:
    """A manifest that declares more than the files beside it hold is refused before memory is taken."""
    counts = {name: state[name] for name in ("steps", "env_steps", "updates")}
    num_envs = manifest.about["num_envs"]
    if not all(map(is_count, counts.values())) or not (
        manifest.step == counts["steps"] == counts["env_steps"] * num_envs
    ):
        raise ValueError(f"{counts} do not belong to {manifest.step} decisions in {num_envs} environments.")
    if manifest.about["own_network"]:
        return
    layers, features = configuration.training.mlp_layers, configuration.training.features
    own = configuration.agent_settings
    has_posterior = isinstance(own, PosteriorSettings)
    regressors = features + (own.prior_features if isinstance(own, DeepSettings) else 0)
    if layers > len(state["online"]) or (has_posterior and state["posterior"]["factor"].size < regressors**2):
        raise ValueError(f"it declares {layers:,} layers of {features:,} features, but does not hold as much.")


def _try_to_read(folder: Path) -> Manifest | None:
    with suppress(CheckpointError):
        return checkpoint_files.read(folder)
    return None


@contextmanager
def _as_checkpoint_error(folder: Path) -> Iterator[None]:
    """Whatever goes wrong in here, the checkpoint's content is the cause."""
    try:
        yield
    except CheckpointError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, OverflowError) as error:
        raise CheckpointError(f"{folder} does not fit together: {type(error).__name__}: {error}") from error


@contextmanager
def _closing_on_error(learner: Learner) -> Iterator[None]:
    try:
        yield
    except BaseException:
        learner.envs.close()
        raise
