"""Actions of somebody else than the agent: a rule, another agent, a person. The agent learns from what they lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdqn.envs.products import ProductSpace
from bdqn.envs.records import RecordSpace

if TYPE_CHECKING:
    from bdqn.envs.vector import Environments

Demonstrator = Callable[[Any], ArrayLike]  # from N observations to N actions, as the environment takes them


def demonstrated(demonstrator: Demonstrator, envs: Environments) -> NDArray[np.int64]:
    """What it does where the environments stand now, as numbers from 0; what is no action of theirs is a ValueError.

    Of structured observations it is given a dictionary of their parts.
    """
    seen, space = envs.observation_space, envs.action_space
    given = np.asarray(demonstrator(seen.unpack(envs.obs) if isinstance(seen, RecordSpace) else envs.obs.copy()))
    known = space.structured if isinstance(space, ProductSpace) else space
    shape = (envs.num_envs, *(known.shape or ()))
    if given.shape != shape or given.dtype.kind not in "biu" or not all(known.contains(row) for row in given):
        raise ValueError(
            f"The policy must give an array of whole numbers of shape {shape}, one action of {known} for each "
            f"environment; it gave {given!r:.200}."
        )
    return space.number(given) if isinstance(space, ProductSpace) else given.astype(np.int64) - int(space.start)
