"""Problems of MiniGrid (Chevalier-Boisvert et al., 2023), seen from above and as an image: no memory is needed."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from bdqn.envs.extras import import_extra

IDS = {"MiniGridEmpty": "MiniGrid-Empty-16x16-v0", "MiniGridDoorKey": "MiniGrid-DoorKey-6x6-v0"}


def make_minigrid(env_id: str, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """An id of MiniGrid, with the whole grid as observation (width, height, 3)."""
    wrappers = import_extra("minigrid.wrappers", "minigrid")
    env: gym.Env[Any, Any] = gym.make(env_id, render_mode=render_mode)
    return wrappers.ImgObsWrapper(wrappers.FullyObsWrapper(env))  # type: ignore[no-any-return]
