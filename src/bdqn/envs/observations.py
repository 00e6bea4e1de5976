"""What the networks and the replay buffer need to know of an environment's observations."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from bdqn.config.observations import ObservationSpec
from bdqn.envs.atari import AtariEnv
from bdqn.envs.gym_vector import Member
from bdqn.envs.records import Leaf, RecordSpace


def observation_spec(env: gym.Env[Any, Any]) -> ObservationSpec:
    """What the networks and the replay buffer need to know of an environment's observations."""
    space = env.observation_space
    if isinstance(space, RecordSpace):
        leaves = ((leaf.name, _leaf_spec(leaf, start)) for leaf, start in zip(space.leaves, space.starts, strict=True))
        return ObservationSpec(space.shape, np.dtype(np.uint8), leaves=tuple(leaves))
    if isinstance(space, spaces.Discrete):
        return ObservationSpec((), np.dtype(np.int64), categories=int(space.n), first_category=int(space.start))
    assert isinstance(space, spaces.Box)
    dtype = np.dtype(np.float32) if space.dtype == np.float64 else np.dtype(space.dtype)
    return ObservationSpec(
        space.shape,
        dtype,
        low=space.low.astype(np.float32),
        high=space.high.astype(np.float32),
        # A wrapper could change pixels behind the memory's back, so only the bare environment is trusted to stack.
        stack=env.frame_stack if isinstance(env, AtariEnv | Member) else 0,
    )


def _leaf_spec(leaf: Leaf, start: int) -> ObservationSpec:
    if not isinstance(leaf.space, spaces.Box):
        return ObservationSpec(leaf.shape, leaf.dtype, counts=leaf.counts, start=start)
    low, high = (np.atleast_1d(bound.astype(np.float32)) for bound in (leaf.space.low, leaf.space.high))
    # A number without an axis, which only a part may be, is a vector of one.
    return ObservationSpec(low.shape, leaf.dtype, low=low, high=high, start=start)
