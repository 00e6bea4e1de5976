"""Problems of MiniGrid (Chevalier-Boisvert et al., 2023), seen from above and as an image: no memory is needed.

MiniGrid's own ids work, too: their missions are texts, but those that a problem can set are known.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import gymnasium as gym

from bdqn.envs.extras import import_extra

MOST_MISSIONS = 1_000
IDS = {"MiniGridEmpty": "MiniGrid-Empty-16x16-v0", "MiniGridDoorKey": "MiniGrid-DoorKey-6x6-v0"}


def make_minigrid(env_id: str, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """An id of MiniGrid, with the whole grid as observation (width, height, 3)."""
    wrappers = import_extra("minigrid.wrappers", "minigrid")
    env: gym.Env[Any, Any] = gym.make(env_id, render_mode=render_mode)
    return wrappers.ImgObsWrapper(wrappers.FullyObsWrapper(env))  # type: ignore[no-any-return]


def missions(space: Any) -> list[str] | None:
    """All texts of a mission space of MiniGrid; None if it is no such space, or has too many, as BabyAI's have."""
    if type(space).__module__ != "minigrid.core.mission":
        return None
    parts = space.ordered_placeholders or []
    if math.prod(map(len, parts)) > MOST_MISSIONS:
        return None
    return list(dict.fromkeys(space.mission_func(*words) for words in product(*parts)))
