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

CHANCE = 0.1  # of what follows an observation once more, the share that may differ where the world is deterministic


class Loops:
    """What followed each observation under the draw that acts, in each of N environments; by hashes."""

    def __init__(self, num_envs: int) -> None:
        self._next: list[dict[int, int]] = [{} for _ in range(num_envs)]
        self._at: list[int | None] = [None] * num_envs  # where it stands; None: nobody has asked
        self._seen, self._differed = 0, 0  # how often something followed an observation once more, and was another

    def found(self, obs: NDArray[Any], where: NDArray[np.bool_], ended: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of the environments asked about, now at ``obs``: where a draw repeats what it did in this episode."""
        repeats = np.zeros_like(where)
        for env in range(len(where)):
            before = None if ended[env] else self._at[env]
            self._at[env] = now = frame_hash(obs[env]) if where[env] else None
            if before is not None and now is not None:
                repeats[env] = self._repeats(self._next[env], before, now)
        self.forget(np.flatnonzero(ended))
        return repeats

    def _repeats(self, followed: dict[int, int], before: int, now: int) -> bool:
        if before not in followed:
            followed[before] = now
            return False
        self._seen += 1
        self._differed += followed[before] != now
        return followed[before] == now and self._differed <= CHANCE * self._seen

    def forget(self, envs: NDArray[np.int64]) -> None:
        """In these environments, another draw begins to act."""
        for env in envs:
            self._next[env] = {}

    def state(self) -> dict[str, Any]:
        return {
            "next": [sorted(followed.items()) for followed in self._next],
            "at": self._at,
            "seen": self._seen,
            "differed": self._differed,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` gave."""
        if not len(state["next"]) == len(state["at"]) == len(self._at):
            raise ValueError("what followed observations is not that of as many environments.")
        self._next = [{int(one): int(other) for one, other in followed} for followed in state["next"]]
        self._at = [None if at is None else int(at) for at in state["at"]]
        self._seen, self._differed = int(state["seen"]), int(state["differed"])
