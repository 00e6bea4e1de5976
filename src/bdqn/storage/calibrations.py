"""The calibration of an agent, in a file beside it: of a run in the run's directory, of a saved agent in its own.

It names the weights that it belongs to by their SHA-256: an agent that has learned on is another one.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from bdqn.qlearning.calibration import Calibration
from bdqn.storage import atomic, safe_files, state_files
from bdqn.storage.checkpoint_files import Manifest
from bdqn.storage.safe_files import DamagedFile, is_count

NAME = "calibration.json"
WEIGHTS = "agent.safetensors"
DIGITS = 6  # of a distance: far more than a quantile of a few hundred can tell


def home_of(agent: Path) -> Path:
    """The directory that an agent's calibration is in: a checkpoint's is that of its run."""
    in_run = agent.parent.name == "checkpoints" and agent.name.startswith("gen-")
    return agent.parent.parent if in_run else agent


def to_bytes(calibration: Calibration, manifest: Manifest) -> bytes:
    """A calibration's file."""
    distances = [[float(f"{value:.{DIGITS}g}") for value in own] for own in calibration.distances]
    content = {"steps": calibration.steps, "agent": manifest.member(WEIGHTS).sha256, "distances": distances}
    return state_files.to_json(content)


def write(agent: Path, calibration: Calibration, manifest: Manifest) -> Path:
    """Write the calibration of the agent in this directory. Replaces an earlier one."""
    path = home_of(agent) / NAME
    atomic.write_file(path, to_bytes(calibration, manifest))
    return path


def read(agent: Path, manifest: Manifest) -> Calibration | None:
    """The calibration of the agent in this directory; None if there is none, or one of what it was before."""
    path = home_of(agent) / NAME
    if not os.path.lexists(path):
        return None
    content = safe_files.read_json(path, safe_files.EVALUATION)
    try:
        steps, of = content["steps"], content["agent"]
        distances = tuple(np.array(own, np.float64) for own in content["distances"])
        if not (is_count(steps) and isinstance(of, str)):
            raise TypeError("it does not say of which agent it is")
        if not distances or any(own.ndim != 1 or not np.isfinite(own).all() for own in distances):
            raise TypeError("its distances are not finite numbers, episode by episode")
        found = Calibration(steps, distances)
        found.check()
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedFile(f"{path} is no calibration ({type(error).__name__}: {error}): delete it.") from error
    return found if of == manifest.member(WEIGHTS).sha256 else None
