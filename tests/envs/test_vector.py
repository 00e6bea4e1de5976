"""N environments as one: what a learner stores, what the record reports, and where to act next."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from bdqn.envs import TERMINAL_FOR_LEARNER, Environments, UnsupportedSpace, make_env
from bdqn.envs.interaction import Episode


class Corridor(gym.Env[Any, Any]):
    """Counts its steps, in one array that it writes over each time; ends after ``length`` of them as told."""

    def __init__(self, length: int, end: tuple[bool, bool] = (True, False), dtype: type = np.float64) -> None:
        self.length, self.end = length, end
        self.observation_space = gym.spaces.Box(0, 100, (2,), dtype)
        self.action_space = gym.spaces.Discrete(3)
        self.place: Any = np.zeros(2, dtype)
        self.seeds: list[int | None] = []
        self.life_lost_at = -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        self.place[:] = 0
        return self.place, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += 1
        over = self.place[0] == self.length
        info = {TERMINAL_FOR_LEARNER: self.place[0] == self.life_lost_at}
        return self.place, 2.5 * action, over and self.end[0], over and self.end[1], info


class Shifted(gym.Env[Any, Any]):
    """A Discrete world whose observations and actions are counted from 10 and from -1."""

    observation_space = gym.spaces.Discrete(5, start=10)
    action_space = gym.spaces.Discrete(3, start=-1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        return 12, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 12 + action, float(action), action == 1, False, {}


@pytest.mark.parametrize(
    ("end", "terminal", "truncated", "cut_short"),
    [
        ((True, False), True, False, False),
        ((False, True), False, True, True),
        ((True, True), True, True, False),  # the end came by itself in the very last step allowed
    ],
)
def test_at_an_end_the_final_observation_and_the_first_of_the_next_episode_are_kept_apart(
    end: tuple[bool, bool], terminal: bool, truncated: bool, cut_short: bool
) -> None:
    envs = Environments([Corridor(2, end)], [0])
    first = envs.step([1])
    assert first.obs is first.next_obs
    assert [first.ended[0], first.terminal[0], first.truncated[0], first.episodes] == [
        False,
        False,
        False,
        (),
    ]

    last = envs.step([2])
    assert last.next_obs.tolist() == [[2, 2]]
    assert last.obs.tolist() == envs.obs.tolist() == [[0, 0]]
    assert (last.terminal[0], last.truncated[0], last.ended[0]) == (terminal, truncated, True)
    assert last.episodes == (Episode(env=0, raw_return=7.5, length=2, truncated=cut_short),)
    assert envs.step([0]).next_obs.tolist() == [[1, 1]]


def test_environments_end_each_in_its_own_time() -> None:
    envs = Environments([Corridor(2), Corridor(3), Corridor(2)], [0, 1, 2])
    envs.step([0, 1, 2])
    step = envs.step([1, 1, 1])
    assert step.next_obs[:, 0].tolist() == [2, 2, 2]
    assert step.obs[:, 0].tolist() == [0, 2, 0]
    assert step.ended.tolist() == [True, False, True]
    assert step.reward.tolist() == [2.5, 2.5, 2.5]
    assert [(e.env, e.raw_return) for e in step.episodes] == [(0, 2.5), (2, 7.5)]
    (episode,) = envs.step([0, 0, 0]).episodes
    assert (episode.env, episode.raw_return, episode.length) == (1, 5.0, 3)


def test_a_step_stays_as_it_was_when_later_ones_are_taken() -> None:
    envs = Environments([Corridor(2), Corridor(5)], [0, 0])
    start = envs.obs
    steps = [envs.step([0, 1]) for _ in range(4)]
    assert start.tolist() == [[0, 0], [0, 0]]
    assert [s.next_obs[:, 0].tolist() for s in steps] == [[1, 1], [2, 2], [1, 3], [2, 4]]
    assert [s.obs[:, 0].tolist() for s in steps] == [[1, 1], [0, 2], [1, 3], [0, 4]]
    assert [s.ended[0] for s in steps] == [False, True, False, True]


def test_a_lost_life_is_terminal_for_the_learner_but_the_episode_goes_on() -> None:
    env = Corridor(3)
    env.life_lost_at = 1
    envs = Environments([env], [0])
    step = envs.step([1])
    assert step.terminal[0]
    assert not step.ended[0]
    assert step.obs is step.next_obs
    assert not envs.step([1]).terminal[0]
    assert envs.step([1]).episodes[0].length == 3


def test_a_cut_that_the_learner_takes_for_an_end_is_still_reported_as_a_cut() -> None:
    env = Corridor(2, end=(False, True))
    env.life_lost_at = 2
    envs = Environments([env], [0])
    envs.step([0])
    step = envs.step([0])
    assert step.terminal[0]
    assert step.episodes[0].truncated


def test_each_environment_is_seeded_once() -> None:
    corridors = [Corridor(1), Corridor(1)]
    envs = Environments(corridors, [7, 8])
    envs.step([0, 0])
    envs.step([0, 0])
    assert [c.seeds for c in corridors] == [[7, None, None], [8, None, None]]


@pytest.mark.parametrize(("given", "kept"), [(np.float64, np.float32), (np.float32, np.float32), (np.uint8, np.uint8)])
def test_only_double_precision_observations_are_converted(given: type, kept: type) -> None:
    envs = Environments([Corridor(2, dtype=given)], [0])
    assert envs.obs.dtype == envs.step([0]).next_obs.dtype == kept


def test_observations_are_as_given_and_actions_count_from_zero() -> None:
    envs = Environments([Shifted(), Shifted()], [0, 0])
    assert envs.obs.dtype == np.int64
    assert envs.obs.tolist() == [12, 12]
    step = envs.step(np.array([0, 2]))
    assert step.reward.tolist() == [-1, 1]
    assert step.next_obs.tolist() == [11, 13]
    assert step.obs.tolist() == [11, 12]


def test_the_same_trajectory_as_the_bare_environment() -> None:
    envs = Environments([make_env("CartPole-v1")], [3])
    bare = make_env("CartPole-v1")
    obs, _ = bare.reset(seed=3)
    actions = np.random.default_rng(0).integers(2, size=100)
    returns, total = [], 0.0
    for action in actions:
        assert np.array_equal(envs.obs[0], obs)
        obs, reward, terminated, truncated, _ = bare.step(int(action))
        total += float(reward)
        step = envs.step([action])
        assert np.array_equal(step.next_obs[0], obs)
        if terminated or truncated:
            returns.append(total)
            assert step.episodes[0].raw_return == total
            obs, _ = bare.reset()
            total = 0.0
    assert len(returns) > 2


def test_an_environment_that_cannot_be_restored_begins_a_new_episode_and_is_named() -> None:
    envs = Environments([Corridor(3)], [0])
    envs.step([1])
    state = envs.state()
    envs.step([1])
    assert state["obs"].tolist() == [[1, 1]]

    resumed = Environments([env := Corridor(3)], [0])
    assert resumed.load_state(state, [5]) == {
        0: f"{Corridor.__module__}.Corridor has no get_env_state() and set_env_state()"
    }
    assert resumed.obs.tolist() == [env.reset(seed=5)[0].tolist()]
    for _ in range(2):
        resumed.step([1])
    assert resumed.step([1]).episodes == (Episode(0, 7.5, 3, False),)


def test_environments_must_be_alike_and_supported() -> None:
    with pytest.raises(ValueError, match="Environment 1 has spaces"):
        Environments([Corridor(2), Corridor(2, dtype=np.uint8)], [0, 0])
    with pytest.raises(UnsupportedSpace):
        Environments([make_env("Pendulum-v1")], [0])
    with pytest.raises(ValueError, match="zip"):
        Environments([Corridor(2), Corridor(2)], [0])
