"""The five games of MinAtar (Young and Tian 2019) as Gymnasium environments."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from colorsys import hsv_to_rgb
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from bdqn.envs.extras import import_extra
from bdqn.envs.state import generator_state, set_generator_state

_MEANINGS = {"n": "no-op", "l": "left", "u": "up", "r": "right", "d": "down", "f": "fire"}
_CONSTANT = {"channels", "action_map", "random"}  # attributes that never change; the generator is saved separately
Grid = NDArray[np.bool_]


class MinAtar(gym.Env[Grid, Any]):
    """A game on a 10 x 10 grid, one boolean channel per kind of object.

    As in MinAtar by default, an action is replaced by the previous one with probability 0.1, games become harder over
    time, and episodes have no time limit.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012, Gymnasium's own declaration
    pixels_per_cell: ClassVar[int] = 32

    def __init__(
        self,
        game: str,
        minimal_actions: bool = True,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        render_mode: str | None = None,
    ) -> None:
        """``game`` is in lower case with underscores. ``minimal_actions`` leaves out actions without effect."""
        self.game = import_extra("minatar", "minatar").Environment(
            game, sticky_action_prob=sticky_action_prob, difficulty_ramping=difficulty_ramping
        )
        self.render_mode = render_mode
        self._actions = self.game.minimal_action_set() if minimal_actions else range(self.game.num_actions())
        self.action_space = gym.spaces.Discrete(len(self._actions))
        shape = tuple(self.game.state_shape())  # (10, 10, channels)
        self.observation_space = gym.spaces.Box(0, 1, shape, np.bool_)  # type: ignore[arg-type, assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Grid, dict[str, Any]]:
        """Start a game. After a seed, everything depends on that seed and the actions alone."""
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(int(self.np_random.integers(2**32)))
            self.game.last_action = 0  # MinAtar keeps a sticky action across episodes
        self.game.reset()
        return self.game.state(), {}

    def step(self, action: int) -> tuple[Grid, float, bool, bool, dict[str, Any]]:
        """Advance the game by one frame."""
        reward, terminated = self.game.act(self._actions[action])
        return self.game.state(), float(reward), bool(terminated), False, {}

    def get_env_state(self) -> dict[str, Any]:
        """Return the whole state of the game."""
        held = {name: value for name, value in vars(self.game.env).items() if name not in _CONSTANT}
        return {
            "game": copy.deepcopy(held),
            "last_action": self.game.last_action,
            "random": generator_state(self.game.random),
        }

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_env_state` returned."""
        known = vars(self.game.env).keys() - _CONSTANT
        if state["game"].keys() != known:
            raise ValueError(f"{self.game.env_name} has the attributes {sorted(known)}, not {sorted(state['game'])}.")
        vars(self.game.env).update(state["game"])
        self.game.last_action = state["last_action"]
        set_generator_state(self.game.random, state["random"])

    def get_action_meanings(self) -> list[str]:
        """Names of the actions."""
        return [_MEANINGS[self.game.env.action_map[action]] for action in self._actions]

    def render(self) -> NDArray[np.uint8] | None:
        """Draw every cell in the colour of its last occupied channel; empty cells are black."""
        if self.render_mode != "rgb_array":
            return None
        state = self.game.state()
        channels = state.shape[-1]
        colours = [(0.0, 0.0, 0.0)] + [hsv_to_rgb(i / channels, 0.7, 1.0) for i in range(channels)]
        topmost = (state * np.arange(1, channels + 1)).max(-1)  # (10, 10), 0 = empty
        image: NDArray[np.uint8] = (255 * np.array(colours)).astype(np.uint8)[topmost]
        return image.repeat(self.pixels_per_cell, 0).repeat(self.pixels_per_cell, 1)
