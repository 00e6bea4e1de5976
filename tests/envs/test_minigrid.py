"""Problems of MiniGrid: the whole grid as an image, the same for the same seed, and solvable."""

from __future__ import annotations

import numpy as np
import pytest

from bdqn.envs import make_env
from bdqn.envs.minigrid import IDS

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
