"""The agents of releases/ can be loaded and play well, and are those that examples/agents.py trains."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import bdqn
from bdqn.runs.evaluation import evaluate
from bdqn.storage import checkpoint_files
from bdqn.storage.saved_agents import CARD

ROOT = Path(__file__).parents[1]
RELEASED = sorted((ROOT / "releases" / "0.1").iterdir())
LEAST = {"cartpole": 400.0, "deep-sea-10": 0.9, "minatar-breakout": 1.0}  # return of the first episode


@pytest.mark.parametrize("folder", RELEASED, ids=lambda folder: folder.name)
def test_an_agent_plays_its_first_episode_well(folder: Path) -> None:
    learner = bdqn.load(folder)
    (first,) = evaluate(learner, 1, max_steps=1_000).returns
    assert first >= LEAST[folder.name]
    assert f"| decisions | {learner.num_timesteps:,} |" in (folder / CARD).read_text()


@pytest.mark.parametrize("folder", RELEASED, ids=lambda folder: folder.name)
def test_an_agent_is_what_the_command_trains(folder: Path) -> None:
    manifest = checkpoint_files.read(folder)
    words = runpy.run_path(str(ROOT / "examples" / "agents.py"))["AGENTS"][folder.name].replace("_", "").split()
    asked = dict(zip(words[::2], words[1::2], strict=True))
    assert [asked["--env"], asked["--agent"]] == [manifest.about["env"], manifest.about["agent"]]
    assert [int(asked["--steps"]), int(asked["--features"])] == [manifest.step, manifest.about["settings"]["features"]]


def test_they_stay_small() -> None:
    assert sum(path.stat().st_size for folder in RELEASED for path in folder.iterdir()) < 5e6
