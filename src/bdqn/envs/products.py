"""Several actions at once, as one: every combination of a MultiDiscrete or a MultiBinary has a number."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bdqn.envs.answers import MANY
from bdqn.envs.spaces import UnsupportedSpace, name_of


class ProductSpace(spaces.Discrete):
    """The combinations of several discrete actions, numbered as NumPy numbers the cells of an array."""

    def __init__(self, space: spaces.MultiDiscrete | spaces.MultiBinary, name: str) -> None:
        """``name`` is the environment's, for messages."""
        self.structured = space
        if isinstance(space, spaces.MultiDiscrete):
            self._counts, self._first = tuple(np.ravel(space.nvec).tolist()), np.asarray(space.start)
        else:
            self._counts, self._first = (2,) * math.prod(space.shape), np.zeros((), np.int64)
        combinations = math.prod(self._counts)
        if not 1 <= combinations <= MANY:
            raise UnsupportedSpace(
                f"{name} has the action space {space} of {_in_words(combinations)} combinations, but bdqn needs 1 to "
                f"{MANY:,}, each of which is an action: offer fewer with gymnasium.wrappers.TransformAction, or decide "
                "on one part after the other."
            )
        super().__init__(combinations)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProductSpace) and self.structured == other.structured

    def combination(self, action: Any) -> NDArray[Any]:
        """What the environment takes for one of our actions, or for several: (..., *shape)."""
        parts = np.stack(np.unravel_index(np.asarray(action), self._counts), axis=-1)
        shaped = parts.reshape(*np.shape(action), *self.structured.shape) + self._first
        return np.asarray(shaped.astype(self.structured.dtype))

    def number(self, combinations: NDArray[Any]) -> NDArray[np.int64]:
        """Our actions for several that the environment takes (n, *shape)."""
        parts = (combinations - self._first).reshape(len(combinations), -1)
        return np.asarray(np.ravel_multi_index(tuple(parts.T.astype(np.int64)), self._counts))


def _in_words(count: int) -> str:
    """A count that may have hundreds of digits."""
    return f"{count:,}" if count < 10**15 else f"about 10^{math.log10(count):.0f}"


class ProductActions(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose several actions are one."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        assert isinstance(env.action_space, spaces.MultiDiscrete | spaces.MultiBinary)
        self.action_space = self._product = ProductSpace(env.action_space, name_of(env))

    def reset(self, **given: Any) -> Any:
        return self.env.reset(**given)

    def step(self, action: Any) -> Any:
        return self.env.step(self._product.combination(action))
