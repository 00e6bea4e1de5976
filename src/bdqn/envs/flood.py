"""A short way on which every mistake ends the episode, and a long time behind it, which floods a replay memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from bdqn.envs.episode_parts import EpisodeParts

Cue = NDArray[np.float32]


class Flood(gym.Env[Cue, Any]):
    """Answer a random cue at every decision; the right answer pays 1.

    On the way, which is ``way`` decisions long, a wrong answer ends the episode. Behind it, for ``flood`` decisions, it
    only pays nothing, and every cue has another right answer than on the way.
    """

    def __init__(
        self, way: int = 20, flood: int = 2_000, cues: int = 8, answers: int = 3, mapping_seed: int = 0
    ) -> None:
        """``mapping_seed`` decides which answers are right."""
        if min(way, flood, cues) < 1 or answers < 2:
            raise ValueError("way, flood and cues must be at least 1, and answers at least 2.")
        self.way, self.flood, self.cues = way, flood, cues
        rng = np.random.default_rng(mapping_seed)
        on_the_way = rng.integers(answers, size=cues)
        self.right_answers = np.stack([on_the_way, (on_the_way + rng.integers(1, answers, cues)) % answers])
        self.action_space = gym.spaces.Discrete(answers)
        self.observation_space = gym.spaces.Box(0.0, 1.0, (cues,), np.float32)
        self._cue = self._decisions = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Cue, dict[str, Any]]:
        """Begin the way."""
        super().reset(seed=seed)
        self._decisions = 0
        return self._next_cue(), {}

    def step(self, action: int) -> tuple[Cue, float, bool, bool, dict[str, Any]]:
        """Answer the cue."""
        is_behind = self._decisions >= self.way
        is_right = bool(action == self.right_answers[int(is_behind), self._cue])
        self._decisions += 1
        ends = self._decisions == self.way + self.flood or not (is_right or is_behind)
        return self._next_cue(), float(is_right), ends, False, {}

    def _next_cue(self) -> Cue:
        self._cue = int(self.np_random.integers(self.cues))
        cue: Cue = np.zeros(self.cues, np.float32)
        cue[self._cue] = 1
        return cue

    def get_env_state(self) -> dict[str, Any]:
        """Give the cue, and how many decisions of the episode have been taken."""
        return {"cue": self._cue, "decisions": self._decisions}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        """Take back what `get_env_state` gave."""
        self._cue, self._decisions = int(state["cue"]), int(state["decisions"])


def make_flood(way: int = 20, **options: Any) -> EpisodeParts:
    """With two more numbers in each observation: on the way, or behind it. ``options`` are those of `Flood`."""
    return EpisodeParts(Flood(way, **options), [way])
