"""Whether a draw goes round in circles.

A draw's policy is stationary. Where the world is deterministic, too, what followed an observation once follows it
again: a draw that comes back to where it has been, and goes on as it did, has nothing more to show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdqn.replay.duplicates import frame_hash


class Loops:
    """What followed each observation under the draw that acts, in each of N environments; by hashes."""

    def __init__(self, num_envs: int) -> None:
        self._next: list[dict[int, int]] = [{} for _ in range(num_envs)]
        self._at: list[int | None] = [None] * num_envs  # where it stands; None: nobody has asked

    def found(self, obs: NDArray[Any], where: NDArray[np.bool_], ended: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of the environments asked about, now at ``obs``: where a draw repeats what it did in this episode."""
        repeats = np.zeros_like(where)
        for env, followed in enumerate(self._next):
            before = None if ended[env] else self._at[env]
            self._at[env] = now = frame_hash(obs[env]) if where[env] else None
            if before is not None and now is not None:
                repeats[env] = followed.get(before) == now
                followed[before] = now
        self.forget(np.flatnonzero(ended))
        return repeats

    def forget(self, envs: NDArray[np.int64]) -> None:
        """In these environments, another draw begins to act."""
        for env in envs:
            self._next[env] = {}

    def state(self) -> dict[str, Any]:
        return {"next": [sorted(followed.items()) for followed in self._next], "at": self._at}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` gave."""
        if not len(state["next"]) == len(state["at"]) == len(self._at):
            raise ValueError("what followed observations is not that of as many environments.")
        self._next = [{int(one): int(other) for one, other in followed} for followed in state["next"]]
        self._at = [None if at is None else int(at) for at in state["at"]]
