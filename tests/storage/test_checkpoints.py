"""Saved agents, and which checkpoints of a training stay."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import bdqn
from bdqn.config.settings import SettingError
from bdqn.learner import Learner
from bdqn.storage.checkpoint_files import CheckpointError
from bdqn.storage.checkpoints import Checkpoints
from bdqn.storage.saved_agents import find_agent
from support.forks import Accident, arrange
from support.processes import elsewhere

OBSERVATIONS = np.random.default_rng(0).normal(0, 0.5, (20, 4)).astype(np.float32)


def learner(seed: int = 0, **settings: object) -> Learner:
    usual = {"features": 8, "buffer_size": 100, "learning_starts": 50, "posterior_update_interval": 50}
    return bdqn.make("bdqn", "CartPole-v1", seed=seed, **{**usual, "batch_size": 8, **settings})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def segments(folder: Path) -> set[str]:
    """The replay segments that a checkpoint names."""
    return {segment["name"] for segment in json.loads((folder / "manifest.json").read_text())["segments"]}


# --- an agent alone -------------------------------------------------------------------------------------------


def test_a_saved_agent_believes_the_same(tmp_path: Path) -> None:
    agent = learner().learn(120)
    agent.save(tmp_path / "agent")
    loaded = bdqn.load(tmp_path / "agent")
    assert loaded.num_timesteps == 120
    np.testing.assert_array_equal(loaded.q_values(OBSERVATIONS), agent.q_values(OBSERVATIONS))
    np.testing.assert_array_equal(loaded.q_posterior(OBSERVATIONS).std, agent.q_posterior(OBSERVATIONS).std)
    assert len(loaded.agent.replay) == 0
    loaded.learn(100)


def test_an_agent_saved_to_the_same_path_replaces_the_one_before(tmp_path: Path) -> None:
    agent = learner()
    for steps in (60, 120):
        agent.learn(60)
        agent.save(tmp_path / "agent")
        assert bdqn.load(tmp_path / "agent").num_timesteps == steps
        assert names(tmp_path) == {"agent"}
        assert names(tmp_path / "agent") == {"agent.json", "agent.safetensors", "manifest.json", "manifest.sha256"}


def test_what_is_no_saved_agent_is_never_replaced(tmp_path: Path) -> None:
    agent = learner()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("mine")
    for name in ("file", "folder"):
        with pytest.raises(FileExistsError, match="is not a saved agent: choose another path"):
            agent.save(tmp_path / name)
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "notes.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    agent.save(tmp_path / "empty")
    agent.save(tmp_path / "new" / "folders" / "agent")
    assert bdqn.load(tmp_path / "new" / "folders" / "agent").num_timesteps == 0


def test_what_a_crash_left_is_replaced_too(tmp_path: Path) -> None:
    agent = learner()
    for name in (".tmp-new-agent", ".tmp-old-agent", ".tmp-.tmp-new-agent"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.json").write_text("half")
    agent.save(tmp_path / "agent")
    assert bdqn.load(tmp_path / "agent").num_timesteps == 0
    assert names(tmp_path) == {"agent"}


def kill_at_every_operation(first: str, second: str, place: str) -> list[int]:
    """In a process of its own, whose children save the second agent over the first and are killed while they do.

    The n-th child dies before its n-th file operation. Says what was there each time: an agent after so many
    decisions, or -1 for none.
    """
    path = Path(place) / "agent"
    before, after = bdqn.load(first), bdqn.load(second)
    found = []
    for count in itertools.count(1):
        before.save(path)
        pid = os.fork()
        if not pid:
            arrange(Accident("kill", count))
            after.save(path)
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        found.append(bdqn.load(path).num_timesteps if path.exists() else -1)
        if found[-1] < 0:  # between two renames: then both stand beside it, whole
            assert [bdqn.load(path.with_name(f".tmp-{age}-agent")).num_timesteps for age in ("old", "new")] == [0, 60]
        if not killed:
            return found
    raise AssertionError


def test_a_kill_never_leaves_half_an_agent(tmp_path: Path) -> None:
    agent = learner()
    for steps in (0, 60):
        agent.learn(steps)
        agent.save(tmp_path / f"after-{steps}")
    place = tmp_path / "place"
    place.mkdir()
    found = elsewhere(kill_at_every_operation, tmp_path / "after-0", tmp_path / "after-60", place)
    assert len(found) > 15  # about that many file operations make a save
    assert found.count(-1) <= 1
    assert found == sorted(found, key=(0, -1, 60).index)  # first the old one, then the new one
    assert found[-1] == 60
    assert names(place) == {"agent"}  # and what the killed ones left has been tidied up


def test_a_path_that_holds_no_agent_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, problem in (("nowhere", "does not exist"), ("empty", "holds neither a saved agent nor a run")):
        with pytest.raises(FileNotFoundError, match=f"{name} {problem}"):
            bdqn.load(tmp_path / name)


def test_settings_can_be_replaced_and_environments_given_again(tmp_path: Path) -> None:
    learner().save(tmp_path / "agent")
    assert bdqn.load(tmp_path / "agent", buffer_size=50).agent.replay.slots == 50
    by_function = bdqn.make("bdqn", lambda: gym.make("CartPole-v1"), features=8, buffer_size=100)
    by_function.save(tmp_path / "function")
    with pytest.raises(SettingError, match="not trained on a registered environment: pass it again"):
        bdqn.load(tmp_path / "function")
    assert bdqn.load(tmp_path / "function", lambda: gym.make("CartPole-v1")).num_timesteps == 0


# --- which checkpoints stay -----------------------------------------------------------------------------------


def train(folder: Path, scores: list[float | None], keep: int) -> tuple[Learner, Checkpoints]:
    """A training with a checkpoint every 40 decisions; in a memory of 100 frames, segments of 25 come and go."""
    agent, checkpoints = learner(), Checkpoints(folder, keep=keep)
    for score in scores:
        agent.learn(40)
        checkpoints.save(agent, score=score)
    return agent, checkpoints


def steps_of(checkpoints: Checkpoints) -> list[int]:
    return [int(path.name.removeprefix("gen-")) for path in checkpoints.paths()]


@pytest.mark.parametrize("keep", [1, 2, 4])
def test_the_newest_stay(tmp_path: Path, keep: int) -> None:
    _, checkpoints = train(tmp_path, [None] * 6, keep)
    assert steps_of(checkpoints) == [40 * i for i in range(7 - keep, 7)]
    needed = set.union(*map(segments, checkpoints.paths()))
    assert names(tmp_path / "replay") == needed


def test_the_best_stays_too_without_its_replay(tmp_path: Path) -> None:
    _, checkpoints = train(tmp_path, [1.0, 5.0, 2.0, 3.0, 4.0, 4.5, 0.0], keep=2)
    assert steps_of(checkpoints) == [80, 240, 280]
    best = checkpoints.paths()[0]
    assert segments(best)
    assert not segments(best) & names(tmp_path / "replay")
    expected = learner().learn(80)
    np.testing.assert_array_equal(bdqn.load(best).q_values(OBSERVATIONS), expected.q_values(OBSERVATIONS))
    assert find_agent(tmp_path, best=True) == best
    assert find_agent(tmp_path).name == "gen-000000000280"


def test_a_better_one_takes_its_place_and_of_equals_the_newer_stays(tmp_path: Path) -> None:
    agent, checkpoints = train(tmp_path, [1.0, 5.0, 2.0, 5.0, 1.0], keep=1)
    assert steps_of(checkpoints) == [160, 200]
    agent.learn(40)
    checkpoints.save(agent, score=6.0)
    assert steps_of(checkpoints) == [240]


def test_the_best_cannot_be_gone_on_from_without_its_replay(tmp_path: Path) -> None:
    _, checkpoints = train(tmp_path, [5.0, *[1.0] * 6], keep=1)
    best, newest = checkpoints.paths()
    shutil.rmtree(newest)
    with pytest.raises(CheckpointError, match=r"env0-\d+-\w+\.safetensors cannot be read"):
        Checkpoints(tmp_path).load()
    assert bdqn.load(best).num_timesteps == 40


def test_what_an_interrupted_save_left_is_removed_by_the_next(tmp_path: Path) -> None:
    agent, checkpoints = train(tmp_path, [None], keep=2)
    (tmp_path / ".tmp-gen-000000000060").mkdir()
    (tmp_path / ".tmp-gen-000000000060" / "agent.json").write_text("half")
    (tmp_path / "replay" / ".tmp-env0-000000000075-0123456789abcdef.safetensors").write_text("half")
    agent.learn(40)
    checkpoints.save(agent)
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".tmp-")]


def test_one_directory_belongs_to_one_training(tmp_path: Path) -> None:
    agent, checkpoints = train(tmp_path, [None], keep=1)
    with pytest.raises(ValueError, match="belongs to another learner"):
        checkpoints.save(learner(1))
    with pytest.raises(FileExistsError, match="holds checkpoints of another training run"):
        Checkpoints(tmp_path).save(learner(1))
    assert checkpoints.save(agent) == checkpoints.paths()[0]  # this very moment is saved already


def test_a_directory_without_checkpoints_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        Checkpoints(tmp_path).load()


def test_without_replay_a_training_goes_on_with_an_empty_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, save_replay=False)
    checkpoints.save(learner().learn(120), {"rows": 7})
    assert names(tmp_path) == {"gen-000000000120"}
    restored = Checkpoints(tmp_path, save_replay=False).load()
    assert (restored.replay, restored.run, len(restored.learner.agent.replay)) == (False, {"rows": 7}, 0)
    assert restored.restarted == {}
    restored.learner.learn(100)
