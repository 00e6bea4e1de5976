"""What a user meets in Python before the first result: names, threads, and learners as values."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import bdqn
from bdqn.learner import Learner
from support.fingerprints import fingerprint


@pytest.fixture
def four_threads() -> Iterator[None]:
    """A caller whose torch computes on four threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def threads_within(learner: Learner) -> int:
    seen: list[int] = []
    learner.learn(1, lambda _learner, _step: seen.append(torch.get_num_threads()))
    return seen[0]


@pytest.mark.usefixtures("four_threads")
class TestThreads:
    def test_small_networks_learn_on_one_thread_and_the_callers_are_restored(self) -> None:
        assert threads_within(bdqn.make("ddqn", "CartPole-v1")) == 1
        assert torch.get_num_threads() == 4

    def test_they_are_restored_after_an_error(self) -> None:
        def fail(_learner: Learner, _step: Any) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            bdqn.make("ddqn", "CartPole-v1").learn(1, fail)
        assert torch.get_num_threads() == 4

    def test_ataris_network_learns_on_the_callers(self) -> None:
        assert threads_within(bdqn.make("ddqn", "ALE/Pong-v5", buffer_size=100)) == 4

    def test_another_number_can_be_asked_for(self) -> None:
        assert threads_within(bdqn.make("ddqn", "CartPole-v1", threads=2)) == 2


def test_dir_lists_what_there_is_to_use() -> None:
    assert dir(bdqn) == sorted(bdqn.__all__)
    assert all(hasattr(bdqn, name) for name in dir(bdqn))


def test_environments_are_at_hand_without_an_import_of_their_own() -> None:
    asks = "import bdqn; print(bdqn.envs.make_atari_vector.__name__)"
    said = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True).stdout
    assert said == "make_atari_vector\n"


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert bdqn.__version__ == project["project"]["version"]


def test_a_learner_says_what_it_is() -> None:
    learner = bdqn.make("bdqn", "CartPole-v1", seed=3).learn(1_200)
    assert repr(learner) == "<bdqn.Learner: bdqn on CartPole-v1, preset default-classic, seed 3, 1,200 decisions>"


@pytest.mark.parametrize(
    ("agent", "env"),
    [
        ("bdqn", "CartPole-v1"),
        ("bootstrapped", "MinAtar/Breakout-v1"),
        ("bdqn-deep", "bdqn/DeepSea10-v0"),
        ("ddqn", "ALE/Pong-v5"),
    ],
)
def test_a_copy_goes_on_as_the_original_does_and_apart_from_it(agent: str, env: str) -> None:
    learner = bdqn.make(agent, env, learning_starts=200, buffer_size=400, num_envs=2).learn(250)
    twin = copy.deepcopy(learner)
    before = fingerprint(twin)
    learner.learn(300)
    assert fingerprint(twin) == before
    assert fingerprint(twin.learn(300)) == fingerprint(learner)


def test_a_copy_of_a_learner_that_was_given_an_environment_has_one_of_its_own() -> None:
    import gymnasium as gym

    learner = bdqn.make("ddqn", gym.make("CartPole-v1"))
    twin = copy.deepcopy(learner)
    assert twin.envs.envs[0] is twin.env_source
    assert twin.env_source is not learner.env_source


def test_pickling_is_refused_by_naming_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"cannot be pickled: learner\.save\(path\)"):
        pickle.dumps(bdqn.make("ddqn", "CartPole-v1"))
