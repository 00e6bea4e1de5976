"""What somebody asks an agent about, as the arrays that it needs; what does not fit is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdqn.qlearning.rules import Allowed

if TYPE_CHECKING:
    from bdqn.config.observations import ObservationSpec


def batch_of(observation: ArrayLike, spec: ObservationSpec) -> tuple[NDArray[Any], bool]:
    """Observations as the agent sees them, as a batch, and whether it was a single one."""
    array = np.asarray(observation)
    if array.shape == spec.shape:
        array, single = array[None], True
    elif array.shape[1:] == spec.shape and array.ndim == len(spec.shape) + 1:
        single = False
    else:
        raise ValueError(f"Observations have shape {spec.shape} (or a batch of them), not {array.shape}.")
    return array.astype(spec.dtype), single


def masks_of(action_masks: ArrayLike | None, rows: int, num_actions: int) -> Allowed:
    """One mask for each of so many observations: the one given, or as many as that; None: all actions are allowed."""
    if action_masks is None:
        return None
    masks, shape = np.asarray(action_masks).astype(np.bool_), (rows, num_actions)
    if masks.shape not in (shape, shape[1:]):
        raise ValueError(f"action_masks must have shape {shape[1:]} or {shape}, not {masks.shape}.")
    if not masks.any(-1).all():
        raise ValueError("action_masks allow no action for some observation: allow at least one.")
    return np.broadcast_to(masks, shape)
