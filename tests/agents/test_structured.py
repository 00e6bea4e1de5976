"""Agents on structured observations: every part is read, and nothing else differs from plain ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import FrameStackObservation, TransformObservation
from torch import nn

import bdqn
from bdqn.agents import AGENTS
from bdqn.config.memory import free_memory
from bdqn.config.settings import SettingError
from bdqn.envs import make_env
from bdqn.networks.torsos import Branches, describe
from bdqn.replay.buffer import bytes_per_frame
from bdqn.runs.evaluation import evaluate
from bdqn.runs.playback import record
from support.fingerprints import fingerprint
from support.probes import LEARNING, trained
from support.small import plain_and_wrapped, small
from support.structured import InADict, OneLeafTells, Structured

EVERY = pytest.mark.parametrize("agent", AGENTS)


def make(agent: str, source: Any = Structured, num_envs: int = 1, **settings: Any) -> bdqn.Learner:
    return small(agent, source, num_envs, **settings)


@pytest.mark.parametrize(
    ("agent", "leaf"),
    [
        pytest.param(agent, leaf, marks=[] if agent == "ddqn" or leaf == "image" else pytest.mark.long)
        for agent in LEARNING
        for leaf in OneLeafTells.LEAVES
    ],
)
def test_what_one_leaf_alone_tells_is_learned(agent: str, leaf: str) -> None:
    source = partial(OneLeafTells, leaf)
    # Its frozen features hold all 128 observations apart, so that it must see each of them; an image counts for more.
    learner = trained(agent, source, 2500 if agent == "bdqn-explore" and leaf != "image" else 800)
    env, rng = source(), np.random.default_rng(0)
    right = 0
    for _ in range(40):
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        right += int(learner.predict(observation)[0]) == env.answer
    assert right >= 38


@EVERY
def test_a_plain_observation_in_a_dict_changes_no_bit(agent: str) -> None:
    plain, packed = plain_and_wrapped(agent, InADict)
    one, other = fingerprint(plain), fingerprint(packed)
    for name in ("posterior", "draws", "generators"):
        assert one[name] == other[name]
    weights = [list(learner.agent.online.state_dict().values()) for learner in (plain, packed)]
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
    assert plain.agent.metrics == packed.agent.metrics


@EVERY
def test_a_structured_run_goes_on_exactly(agent: str, tmp_path: Path) -> None:
    learner = make(agent, num_envs=2).learn(50)
    bdqn.Checkpoints(tmp_path).save(learner)
    restored = bdqn.Checkpoints(tmp_path).load(Structured)
    assert (restored.restarted, restored.replay, restored.changed) == ({}, True, ())
    assert fingerprint(restored.learner.learn(40)) == fingerprint(learner.learn(40))


@EVERY
def test_an_agent_is_asked_with_the_environments_own_observations(agent: str) -> None:
    learner = make(agent).learn(40)
    env = learner.make_env()
    observation, _ = env.reset(seed=1)
    for deterministic in (True, False):
        action, _ = learner.predict(observation, deterministic=deterministic)
        assert env.action_space.contains(action)
        env.step(action)
    assert learner.q_values(observation).shape == (6,)
    assert learner.predict(learner.envs.obs)[0].shape == (1, 2)
    evaluate(learner, 1)


def test_a_safe_action_is_the_environments_own() -> None:
    learner = make("bdqn").learn(60)
    env = learner.make_env()
    observation, _ = env.reset(seed=1)
    assert env.action_space.contains(learner.safe_action(observation))


def test_packed_frames_are_the_same_frames() -> None:
    runs = [make("bdqn", pack_frames=packed).learn(120) for packed in (False, True)]
    one, other = map(fingerprint, runs)
    assert one["weights"] == other["weights"]
    assert one["posterior"] == other["posterior"]
    frames = [run.agent.replay.observations(*run.agent.replay.index()) for run in runs]
    np.testing.assert_array_equal(*frames)


@pytest.mark.parametrize("packed", [False, True])
def test_a_stack_of_images_in_a_dict_is_what_it_is_alone(packed: bool) -> None:
    """The weights are the same, bit for bit, and a frame takes as much of the replay buffer, packed or not."""

    def stacked() -> gym.Env[Any, Any]:
        return FrameStackObservation(make_env("bdqn/GridImage-v0", env_kwargs={"size": 5}), 4)

    def flat() -> gym.Env[Any, Any]:  # stacked images have four axes; a network takes three, channels first
        side = stacked().observation_space.shape[1:3]
        space = gym.spaces.Box(0, 255, (4, *side), np.uint8)
        return TransformObservation(stacked(), lambda frames: np.uint8(255) * frames.any(-1), space)

    plain, inside = (make("bdqn", source, pack_frames=packed).learn(120) for source in (flat, lambda: InADict(flat())))
    assert inside.agent.spec.is_image
    assert all(map(torch.equal, *(run.agent.online.state_dict().values() for run in (plain, inside))))
    one, other = (run.agent.replay for run in (plain, inside))
    assert one.frame_bytes == other.frame_bytes
    assert one.frames.nbytes == other.frames.nbytes
    frames = other.observations(*other.index())
    np.testing.assert_array_equal(frames.reshape(len(frames), *one.frames.shape[2:]), one.observations(*one.index()))


def test_memory_is_counted_before_anything_is_trained() -> None:
    learner = make("ddqn")
    size = learner.envs.observation_space.record.itemsize
    assert learner.agent.replay.frame_bytes == bytes_per_frame((size,), np.uint8, 0)
    assert learner.agent.replay.frames.nbytes == 80 * size
    with pytest.raises(SettingError, match=r"A replay buffer of .* frames needs .* GB, but"):
        make("ddqn", buffer_size=2 * free_memory() // size)


def test_unbounded_numbers_of_a_leaf_follow_the_range_seen() -> None:
    learner = make("bdqn-explore").learn(80)
    torso = learner.agent.online.torso
    assert isinstance(torso, Branches)
    leaves = dict(zip([leaf.name for leaf in learner.envs.observation_space.leaves], torso.torsos, strict=True))
    assert leaves["speed"][0].followed.all()
    assert leaves["clock"][0].followed.all()
    assert {name for name, part in leaves.items() if hasattr(part[0], "followed")} == {"speed", "clock"}


def test_a_network_of_ones_own_gets_the_leaves_by_name() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2 + 3, 7)

        def forward(self, leaves: dict[str, torch.Tensor]) -> torch.Tensor:
            assert leaves["camera/left"].shape[1:] == (2, 5, 5)
            return self.layer(torch.cat([leaves["pair/0"], leaves["speed"]], dim=1))

    learner = make("ddqn", network=Own()).learn(60)
    assert learner.agent.updates > 0
    with pytest.raises(ValueError, match=r"as float32 of shape .*camera/left \(2, 2, 5, 5\), .*speed \(2, 3\)"):
        make("ddqn", network=nn.Linear(3, 4))


def test_a_structured_episode_can_be_watched() -> None:
    learner = make("bdqn").learn(60)
    recording = record(learner, max_steps=5, episodes=10)
    assert len(recording.pictures) == 5
    assert recording.actions[:2] == ("[0, 5]", "[0, 6]")
    bars = make("ddqn", lambda: InADict(gym.make("CartPole-v1", disable_env_checker=True)))
    assert record(bars, max_steps=5).observations.shape == (5, 4)


def test_what_the_network_reads_is_said_leaf_by_leaf() -> None:
    text = describe(make("ddqn").agent.spec)
    assert "a picture of 5 x 5 with 2 channel(s), MinAtar's convolution (camera/left)" in text
    assert "a one-hot vector of 14, for 4 categories (dials)" in text
    assert "a vector of 6 (lamps)" in text
