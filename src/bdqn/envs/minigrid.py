"""Problems of MiniGrid (Chevalier-Boisvert et al., 2023), seen from above and as an image: no memory is needed.

MiniGrid's own ids work, too: their missions are texts, but those that a problem can set are known. Its images hold
small codes, though they declare bytes: scaled as such, all would look alike. The state of those problems whose grid
says everything can be saved and restored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from bdqn.envs.extras import import_extra

MOST_MISSIONS = 1_000
#: Exact classes, by name. Others may keep objects beside the grid.
IN_THE_GRID = ("minigrid.envs.empty.EmptyEnv", "minigrid.envs.doorkey.DoorKeyEnv")
STATELESS = ("minigrid.wrappers.ImgObsWrapper", "minigrid.wrappers.FullyObsWrapper")
LARGEST_CODES = np.array([10, 5, 3], np.uint8)  # of objects, of colours, and of states: of doors, or a direction
LARGEST_GRID = 23  # cells along a side; pictures of colours, eight pixels for each cell of at least three, are larger
IDS = {"MiniGridEmpty": "MiniGrid-Empty-16x16-v0", "MiniGridDoorKey": "MiniGrid-DoorKey-6x6-v0"}


def make_minigrid(env_id: str, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """An id of MiniGrid, with the whole grid as observation (width, height, 3)."""
    wrappers = import_extra("minigrid.wrappers", "minigrid")
    env: gym.Env[Any, Any] = gym.make(env_id, render_mode=render_mode, disable_env_checker=True)
    seen: gym.Env[Any, Any] = wrappers.ImgObsWrapper(wrappers.FullyObsWrapper(env))
    assert isinstance(seen.observation_space, spaces.Box)
    seen.observation_space = of_codes(seen.observation_space)
    return seen


def of_codes(image: spaces.Box) -> spaces.Box:
    """The space of an image of codes, with their bounds."""
    return spaces.Box(np.zeros_like(image.low), np.broadcast_to(LARGEST_CODES, image.shape), dtype=np.uint8)


def with_bounds(parts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parts of a Dict; if it is one of MiniGrid's, with the bounds of the codes of its image."""
    image = parts.get("image")
    if not _is_mission(parts.get("mission")) or not isinstance(image, spaces.Box) or image.dtype != np.uint8:
        return parts
    if image.shape[2:] != LARGEST_CODES.shape or max(image.shape) > LARGEST_GRID:
        return parts
    return {**parts, "image": of_codes(image)}


def missions(space: Any) -> list[str] | None:
    """All texts of a mission space of MiniGrid; None if it is no such space, or has too many, as BabyAI's have."""
    if not _is_mission(space):
        return None
    parts = space.ordered_placeholders or []
    if math.prod(map(len, parts)) > MOST_MISSIONS:
        return None
    return list(dict.fromkeys(space.mission_func(*words) for words in product(*parts)))


def _is_mission(space: Any) -> bool:
    return type(space).__module__ == "minigrid.core.mission"


def grid_state(env: Any) -> dict[str, Any]:
    """What changes in an episode of an environment whose grid says everything."""
    return {
        "grid": env.grid.encode(),
        "position": [int(axis) for axis in env.agent_pos],
        "direction": int(env.agent_dir),
        "carrying": None if env.carrying is None else list(env.carrying.encode()),
        "step_count": int(env.step_count),
    }


def set_grid_state(env: Any, state: Mapping[str, Any]) -> None:
    """Take back what ``grid_state`` gave."""
    grid, (x, y), carrying = state["grid"], state["position"], state["carrying"]
    own = env.grid.encode()
    if grid.shape != own.shape or grid.dtype != own.dtype or not (0 <= x < env.width and 0 <= y < env.height):
        raise ValueError(
            f"the grid is {grid.dtype} {grid.shape}, the agent at {(x, y)}, not in {own.dtype} {own.shape}."
        )
    objects = import_extra("minigrid.core.world_object", "minigrid")
    try:
        env.grid, _ = type(env.grid).decode(grid)
        env.carrying = None if carrying is None else objects.WorldObj.decode(*carrying)
    except (KeyError, AssertionError) as error:
        raise ValueError(f"these are not objects of MiniGrid: {error}.") from error
    env.agent_pos, env.agent_dir = (int(x), int(y)), int(state["direction"]) % 4
    env.step_count = int(state["step_count"])
