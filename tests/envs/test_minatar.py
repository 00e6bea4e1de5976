"""MinAtar's games behave as MinAtar's, and a seed fixes everything."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from bdqn.envs import MinAtar, family, make_env

pytest.importorskip("minatar", reason="the minatar extra is not installed")

MINIMAL_ACTIONS = {"Asterix": 5, "Breakout": 3, "Freeway": 3, "Seaquest": 6, "SpaceInvaders": 4}


def trajectory(env: gym.Env[Any, Any], seed: int, steps: int = 150) -> list[tuple[bytes, float, bool]]:
    obs, _ = env.reset(seed=seed)
    seen = [(obs.tobytes(), 0.0, False)]
    for action in np.random.default_rng(0).integers(int(env.action_space.n), size=steps):  # type: ignore[attr-defined]
        obs, reward, terminated, _, _ = env.step(int(action))
        seen.append((obs.tobytes(), float(reward), terminated))
        if terminated:
            env.reset()
    return seen


@pytest.mark.parametrize(("name", "minimal"), MINIMAL_ACTIONS.items())
def test_every_game_is_registered_with_minimal_and_full_actions(name: str, minimal: int) -> None:
    env = make_env(f"MinAtar/{name}-v1")
    assert isinstance(env.unwrapped, MinAtar)
    assert env.action_space == gym.spaces.Discrete(minimal)
    assert make_env(f"MinAtar/{name}-v0").action_space == gym.spaces.Discrete(6)
    assert family(f"MinAtar/{name}-v1") == family(env) == "minatar"
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space
    assert obs.dtype == np.bool_
    assert obs.shape[:2] == (10, 10)


@pytest.mark.parametrize("name", MINIMAL_ACTIONS)
def test_a_seed_fixes_everything_whatever_was_played_before(name: str) -> None:
    env = make_env(f"MinAtar/{name}-v1")
    first = trajectory(env, seed=1)
    assert trajectory(env, seed=1) == first
    assert trajectory(make_env(f"MinAtar/{name}-v1"), seed=1) == first
    assert trajectory(env, seed=2) != first


def test_no_action_sticks_from_before_a_seed() -> None:
    used, fresh = make_env("MinAtar/Breakout-v1"), make_env("MinAtar/Breakout-v1")
    for seed in range(30):  # an action sticks in one of ten
        for _ in range(5):
            used.reset()
            used.step(2)
        fresh.unwrapped.game.last_action = 0  # type: ignore[attr-defined]
        for env in (used, fresh):
            env.reset(seed=seed)
        assert np.array_equal(used.step(0)[0], fresh.step(0)[0])


def test_the_defaults_are_those_of_minatar() -> None:
    env = make_env("MinAtar/Breakout-v1").unwrapped
    assert isinstance(env, MinAtar)
    assert env.game.sticky_action_prob == 0.1
    ramping = make_env("MinAtar/Asterix-v1").unwrapped
    assert isinstance(ramping, MinAtar)
    assert ramping.game.env.ramping


def test_a_time_limit_can_be_asked_for() -> None:
    env = make_env("MinAtar/Freeway-v1", env_kwargs={"max_episode_steps": 3})
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


def test_it_can_be_drawn() -> None:
    env = make_env("MinAtar/Breakout-v1", env_kwargs={"render_mode": "rgb_array"})
    obs, _ = env.reset(seed=0)
    image = env.render()
    assert isinstance(image, np.ndarray)
    assert image.shape == (320, 320, 3)
    assert image.dtype == np.uint8
    cells = image[::32, ::32]
    assert np.array_equal(cells.any(-1), obs.any(-1))  # black where, and only where, nothing is
    assert len(np.unique(cells.reshape(-1, 3), axis=0)) > 2
