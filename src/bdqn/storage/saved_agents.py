"""Saved agents: a trained agent as a directory of files, to keep and to share.

Its replay buffer and its environments' states are not saved. `bdqn.storage.checkpoints` saves those too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch

from bdqn.agents.bdqn import PosteriorSettings
from bdqn.agents.bdqn_deep import Settings as DeepSettings
from bdqn.config.resolve import Configuration, configure
from bdqn.config.settings import SettingError, Supervision, build
from bdqn.networks.frozen_priors import saved_count
from bdqn.qlearning.calibration import Calibration
from bdqn.qlearning.finite_checks import check_agent
from bdqn.storage import atomic, calibrations, checkpoint_files, state_files
from bdqn.storage.checkpoint_files import CheckpointError, Manifest
from bdqn.storage.migrations import migrated
from bdqn.storage.origin import about
from bdqn.storage.safe_files import is_count

if TYPE_CHECKING:
    from bdqn.envs import Source
    from bdqn.learner import Learner

AGENT = ("agent.json", "agent.safetensors")
FILES = frozenset((*AGENT, checkpoint_files.MANIFEST, checkpoint_files.CHECKSUM, calibrations.NAME))
CARD = "README.md"  # of a shared agent


def save(learner: Learner, path: str | Path) -> None:
    """Save a learner's agent to a directory. Replaces an agent saved there before; anything else is refused."""
    folder = Path(path)
    _check_replaceable(folder)
    check_agent(learner.agent)
    files = saved_files(learner.num_timesteps, about(learner), agent_files(learner), learner.calibration)
    atomic.replace_directory(folder, files)


def saved_files(
    step: int, about: Mapping[str, Any], members: Mapping[str, bytes], calibration: Calibration | None
) -> dict[str, bytes]:
    """Return the files of a saved agent."""
    manifest, files = checkpoint_files.to_files(step, about, members)
    return files if calibration is None else {**files, calibrations.NAME: calibrations.to_bytes(calibration, manifest)}


def _check_replaceable(folder: Path) -> None:
    """Refuse a directory that holds anything but an agent: all of it is replaced."""
    names = names_in(folder)
    agents = (FILES - {calibrations.NAME}, FILES)
    if CARD in names and names - {CARD} in agents:  # the card may have been edited, and tells of that agent
        raise FileExistsError(
            f"{folder} holds a shared agent, whose model card ({CARD}) would not describe this one: choose another "
            f"path. To share the agent there, use bdqn push OTHER-PATH {folder} --replace, which writes a new card."
        )
    if not (replaceable(folder, FILES) and names in (set(), *agents)):
        raise FileExistsError(f"{folder} exists and is not a saved agent: choose another path.")


def replaceable(folder: Path, known: Set[str]) -> bool:
    """Whether a directory, and what a crash left of replacing it before, holds nothing but known files."""
    return all(names_in(place) <= known for place in (folder, *atomic.replacements(folder)))


def load(
    path: str | Path,
    env: Source | None = None,
    *,
    device: str = "cpu",
    network: torch.nn.Module | None = None,
    **settings: Any,
) -> Learner:
    """Load a saved agent, or the newest checkpoint of a run, as a learner with an empty replay buffer.

    Pass ``env`` (and ``network``) again if the agent was not trained on a registered id. ``settings`` override saved
    ones, such as a smaller ``buffer_size``.
    """
    folder = find_agent(Path(path))
    manifest = checkpoint_files.read(folder)
    state = read_state(folder, manifest, AGENT)
    learner = build_learner(folder, manifest, state, env, device, network, settings)
    with closing_on_error(learner):
        with as_checkpoint_error(folder):
            learner.agent.load_state(state)
        learner.calibration = calibrations.read(folder, manifest)
    return learner


def find_agent(path: Path, *, best: bool = False) -> Path:
    """Find a saved agent: ``path`` itself, or the newest (or ``best``) valid checkpoint of a run."""
    if checkpoint_files.is_checkpoint(path):
        return path
    valid: list[tuple[float, int, Path]] = []
    problems = []
    for folder in (
        *checkpoint_files.checkpoints_in(path),
        *checkpoint_files.checkpoints_in(checkpoint_files.folder_of(path)),
    ):
        try:
            manifest = checkpoint_files.read(folder)
            for name in AGENT:
                checkpoint_files.read_member(folder, manifest.member(name))
            score = float("-inf") if manifest.score is None or not best else manifest.score
            valid.append((score, len(valid), folder))  # ties go to the newest
        except CheckpointError as error:
            problems.append(str(error))
    if valid:
        return max(valid)[-1]
    if problems:
        raise CheckpointError(f"{path} has no valid checkpoint. " + " ".join(problems))
    problem = "holds neither a saved agent nor a run with a checkpoint" if path.exists() else "does not exist"
    raise FileNotFoundError(f"{path} {problem}: pass a directory that bdqn train printed or save() wrote.")


def names_in(folder: Path) -> set[str]:
    """Return the names in a directory: none if it does not exist; a file's own name if it is a file."""
    if folder.is_dir():
        return {path.name for path in folder.iterdir()}
    return {folder.name} if os.path.lexists(folder) else set()


def agent_files(learner: Learner) -> dict[str, bytes]:
    return dict(zip(AGENT, state_files.to_files(learner.agent.state()), strict=True))


def read_state(folder: Path, manifest: Manifest, names: tuple[str, str]) -> Any:
    text, arrays = (checkpoint_files.read_member(folder, manifest.member(name)) for name in names)
    with as_checkpoint_error(folder):
        return migrated(names[0], state_files.from_files(text, arrays), manifest.format)


def build_learner(
    folder: Path,
    manifest: Manifest,
    state: Mapping[str, Any],
    env: Source | None,
    device: str,
    network: torch.nn.Module | None,
    settings: Mapping[str, Any],
) -> Learner:
    """Rebuild the learner that a manifest describes, with new weights."""
    from bdqn.learner import Learner

    origin = manifest.about
    with as_checkpoint_error(folder):
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
        raise SettingError(f"{folder} was not trained on a registered environment: pass it again (env=...).")
    if origin["own_network"] and network is None:
        raise SettingError(f"{folder} was trained with a custom network: pass it again (network=...).")
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
        raise SettingError(f"{folder} cannot be rebuilt: {type(error).__name__}: {error}") from error


def trusted(env_id: str, where: str | Path) -> str:
    """Return an environment id that was read from a file. Refuses an id that imports a module."""
    if ":" in env_id:
        raise SettingError(
            f"{where} names the environment {env_id}, which imports a module. Files must not choose imports: "
            f"pass the environment again (env={env_id!r}, or --env {env_id})."
        )
    return env_id


def _check_size(configuration: Configuration, manifest: Manifest, state: Mapping[str, Any]) -> None:
    """Refuse a manifest that declares more than its files hold, before allocating memory."""
    counts = {name: state[name] for name in ("steps", "env_steps", "updates")}
    num_envs = manifest.about["num_envs"]
    if not all(map(is_count, counts.values())) or not (
        manifest.step == counts["steps"] == counts["env_steps"] * num_envs
    ):
        raise ValueError(f"{counts} do not match {manifest.step} decisions in {num_envs} environments.")
    if manifest.about["own_network"]:
        return
    layers, features = configuration.training.mlp_layers, configuration.training.features
    own = configuration.agent_settings
    has_posterior = isinstance(own, PosteriorSettings)
    frozen = max(own.prior_features if isinstance(own, DeepSettings) else 0, *map(saved_count, _networks(state)))
    regressors = features + frozen
    if layers > len(state["online"]) or (has_posterior and state["posterior"]["factor"].size < regressors**2):
        raise ValueError(f"it declares {layers:,} layers of {features:,} features, but holds fewer.")


def _networks(state: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return state["online"], state["target"]


@contextmanager
def as_checkpoint_error(folder: Path) -> Iterator[None]:
    """Turn errors in the block into CheckpointError: the checkpoint's content is the cause."""
    try:
        yield
    except CheckpointError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, OverflowError) as error:
        raise CheckpointError(f"{folder} is inconsistent: {type(error).__name__}: {error}") from error


@contextmanager
def closing_on_error(learner: Learner) -> Iterator[None]:
    try:
        yield
    except BaseException:
        learner.envs.close()
        raise
