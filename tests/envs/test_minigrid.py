"""Problems of MiniGrid: the whole grid as an image, the same for the same seed, and solvable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from minigrid.wrappers import FullyObsWrapper, RGBImgPartialObsWrapper

import bdqn
from bdqn.agents import AGENTS
from bdqn.envs import Environments, make_env
from bdqn.envs.minigrid import IDS
from bdqn.networks.torsos import Encoder
from bdqn.storage.state_files import from_files, to_files
from support.fingerprints import fingerprint
from support.small import small

LEFT, RIGHT, FORWARD = range(3)


@pytest.mark.parametrize(("name", "side"), [("MiniGridEmpty", 16), ("MiniGridDoorKey", 6)])
def test_the_whole_grid_is_seen(name: str, side: int) -> None:
    assert name in IDS
    env = make_env(f"bdqn/{name}-v0")
    assert env.observation_space.shape == (side, side, 3)
    first, again = (env.reset(seed=seed)[0] for seed in (3, 3))
    assert env.observation_space.contains(first)
    assert np.array_equal(first, again)


def test_walking_along_two_walls_reaches_the_goal() -> None:
    env = make_env("bdqn/MiniGridEmpty-v0")
    env.reset(seed=0)
    for action in [FORWARD] * 13 + [RIGHT] + [FORWARD] * 13:
        _, reward, terminated, _, _ = env.step(action)
    assert terminated
    assert reward > 0.9


@pytest.mark.parametrize(
    "env_id", ["MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0", "bdqn/MiniGridEmpty-v0", "bdqn/MiniGridDoorKey-v0"]
)
def test_an_episode_goes_on_exactly_wherever_it_was_cut(env_id: str) -> None:
    """Doors opened and keys carried included: all of it is decided by chance, over many cuts."""
    envs, rng, carried = Environments([make_env(env_id)], [1]), np.random.default_rng(0), 0
    for _ in range(8):
        for action in rng.integers(7, size=60):
            envs.step([action])
        saved = to_files(envs.state())
        carried += envs.envs[0].unwrapped.carrying is not None
        other = Environments([make_env(env_id)], [2])
        assert other.load_state(from_files(*saved), [0]) == {}
        assert to_files(other.state()) == saved
        for action in rng.integers(7, size=300):
            one, again = (each.step([action]) for each in (envs, other))
            for name in ("next_obs", "reward", "terminal", "truncated", "obs"):
                np.testing.assert_array_equal(getattr(one, name), getattr(again, name))
    assert carried or env_id != "MiniGrid-DoorKey-5x5-v0"


@pytest.mark.parametrize(
    ("env_id", "wrap"),
    [
        ("MiniGrid-DoorKey-5x5-v0", lambda env: env),
        ("MiniGrid-DoorKey-5x5-v0", FullyObsWrapper),
        ("bdqn/MiniGridDoorKey-v0", lambda env: env),
    ],
)
def test_codes_are_scaled_by_the_largest_of_their_kind(env_id: str, wrap: Callable[[Any], Any]) -> None:
    """MiniGrid declares bytes: as such, a wall and a goal would differ by 0.02."""
    learner = small("ddqn", lambda: wrap(make_env(env_id)))
    spec = learner.agent.spec
    _, image = next(((name, leaf) for name, leaf in spec.leaves if name == "image"), ("", spec))
    scaled = Encoder(image)(torch.as_tensor(learner.envs.obs))
    assert scaled.min() == 0
    assert scaled[0, 0].max() > 0.3  # the key, or the agent
    assert 0.3 < scaled.max() <= 1
    assert set((10 * scaled[0, 0]).round().flatten().tolist()) <= set(range(11))


def test_pictures_of_colours_are_bytes() -> None:
    learner = small("ddqn", lambda: RGBImgPartialObsWrapper(make_env("MiniGrid-Empty-5x5-v0")))
    image = dict(learner.agent.spec.leaves)["image"]
    assert image.high is not None
    assert image.high.min() == 255


@pytest.mark.long
def test_the_default_agent_finds_the_goal_of_the_problem_in_the_docs() -> None:
    returns: list[float] = []
    learner = bdqn.make("bdqn-explore", "MiniGrid-Empty-5x5-v0", seed=0)
    learner.learn(6000, lambda _, step: returns.extend(episode.raw_return for episode in step.episodes))
    assert np.mean(returns[-50:]) > 0.7  # the optimum is 0.955, a random policy gets 0.2


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_goes_on_exactly_in_minigrid(agent: str, tmp_path: Path) -> None:
    learner = small(agent, "MiniGrid-DoorKey-5x5-v0", 2).learn(50)
    bdqn.Checkpoints(tmp_path).save(learner)
    restored = bdqn.Checkpoints(tmp_path).load()
    assert (restored.restarted, restored.replay, restored.changed) == ({}, True, ())
    one, other = (fingerprint(each.learn(40)) for each in (restored.learner, learner))
    assert {name for name in one if one[name] != other[name]} <= {"environments"}  # objects know where they once were
    np.testing.assert_array_equal(restored.learner.envs.obs, learner.envs.obs)


@pytest.mark.parametrize(
    "change",
    [
        {"grid": np.zeros((4, 4, 3), np.uint8)},
        {"grid": np.full((5, 5, 3), 77, np.uint8)},
        {"position": [9, 1]},
        {"carrying": [99, 0, 0]},
    ],
)
def test_a_grid_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    envs = Environments([make_env("MiniGrid-Empty-5x5-v0")], [0])
    state = envs.state()
    state["own"][0]["state"]["layers"][-1]["state"].update(change)
    with pytest.raises(ValueError, match=r"the grid is uint8|not objects of MiniGrid"):
        envs.load_state(state, [0])
