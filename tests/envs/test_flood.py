"""The environment that floods a memory, and the numbers that say which part of an episode it is."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box

import bdqn
from bdqn.envs import EpisodeParts, UnsupportedSpace, make_env
from bdqn.envs.flood import Flood
from bdqn.envs.state import get_state, set_state


def play(env: gym.Env, answers: list[int]) -> list[tuple[float, bool, list[float]]]:
    """Right answers of the way (0) or of what is behind it (1), or wrong ones (2), to what the cue is."""
    flood = env.unwrapped
    assert isinstance(flood, Flood)
    seen = []
    for kind in answers:
        right = flood.right_answers[:, flood._cue]
        action = right[kind] if kind < 2 else next(a for a in range(3) if a not in right)
        obs, reward, ends, truncated, _ = env.step(int(action))
        assert not truncated
        seen.append((reward, ends, obs[-2:].tolist()))
    return seen


def test_a_mistake_on_the_way_ends_the_episode_and_behind_it_pays_nothing() -> None:
    env = make_env("bdqn/Flood-v0", env_kwargs={"way": 2, "flood": 3})
    env.reset(seed=0)
    assert play(env, [0, 0, 1, 0, 1]) == [
        (1.0, False, [1, 0]),
        (1.0, False, [0, 1]),
        (1.0, False, [0, 1]),
        (0.0, False, [0, 1]),
        (1.0, True, [0, 1]),
    ]
    for wrong in (1, 2):
        env.reset()
        assert play(env, [0, wrong])[-1] == (0.0, True, [0, 1])


def test_every_cue_has_another_answer_behind_the_way() -> None:
    for seed in range(5):
        answers = Flood(cues=50, answers=4, mapping_seed=seed).right_answers
        assert (answers[0] != answers[1]).all()
        assert set(answers.ravel()) == {0, 1, 2, 3}


def test_its_episodes_are_resumed_exactly() -> None:
    env, other = (make_env("bdqn/Flood-v0", env_kwargs={"way": 3, "flood": 5}) for _ in range(2))
    env.reset(seed=1)
    play(env, [0, 0])
    state = get_state(env)
    expected = play(env, [0, 1, 1])
    other.reset(seed=9)
    set_state(other, state)
    assert play(other, [0, 1, 1]) == expected


def test_nothing_else_is_found_wrong_with_it() -> None:
    assert {finding.level for finding in bdqn.check_env("bdqn/Flood-v0")} <= {"ok", "note"}


def test_parts_are_told_by_the_number_of_the_decision() -> None:
    env = EpisodeParts(gym.make("CartPole-v1"), [2, 3])
    for _ in range(2):
        obs, _ = env.reset(seed=0)
        seen = [obs, *(env.step(step % 2)[0] for step in range(4))]
        assert [int(np.argmax(one[4:])) for one in seen] == [0, 0, 1, 2, 2]
        assert all(one[4:].sum() == 1 and one in env.observation_space for one in seen)


@pytest.mark.parametrize("begins", [[], [0], [3, 3], [4, 2]])
def test_parts_that_begin_nowhere_are_refused(begins: list[int]) -> None:
    with pytest.raises(ValueError, match="in ascending order"):
        EpisodeParts(gym.make("CartPole-v1"), begins)


def test_parts_of_anything_but_a_vector_are_refused() -> None:
    class Picture(gym.Env):
        observation_space = Box(0, 255, (5, 5), np.uint8)

    with pytest.raises(UnsupportedSpace, match="flatten them first"):
        EpisodeParts(Picture(), [3])
