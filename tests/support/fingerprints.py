"""Fingerprints of everything that a learner holds."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from hashlib import sha256
from types import ModuleType
from typing import Any

import numpy as np
import torch

from bdqn.learner import Learner


def fingerprint(learner: Learner) -> dict[str, str]:
    """SHA-256 of all that a learner and its environments hold, by part; taken from the objects, not from state()."""
    agent = learner.agent
    head = agent.online.head
    held = {name: value for name, value in vars(agent).items() if name not in ("optimizer", "last_layer")}
    held |= vars(agent.targets) | vars(agent.draws)
    if agent.last_layer is not None:  # its source knows which transitions are equal, and finds that out again
        held |= {name: value for name, value in vars(agent.last_layer).items() if name != "_source"}
    parts = {
        "weights": agent.online.state_dict(),
        "target": agent.target.state_dict(),
        "optimizer": agent.optimizer.state(),
        "posterior": (head.posterior, head.fitted),
        "draws": (agent.draws.training, agent.draws.acting),
        "replay": vars(agent.replay),
        "counters": {name: value for name, value in held.items() if isinstance(value, int | float)},
        "generators": (agent.rngs, learner._predict_rng),
        "environments": vars(learner.envs),
        "agent": held,  # whatever else there is, or will be
    }
    return {name: digest(part) for name, part in parts.items()}


def digest(value: Any) -> str:
    """SHA-256 of everything that can be reached from a value."""
    sha = sha256()
    _feed(sha.update, value, ())
    return sha.hexdigest()


def _feed(update: Callable[[bytes], None], value: Any, above: tuple[int, ...]) -> None:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        update(f"{value.dtype}{value.shape}".encode())
        if value.dtype.hasobject:
            _feed(update, value.tolist(), above)
        else:
            update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, np.generic | Enum | str | bytes | int | float | type(None)):
        update(repr(value).encode())  # repr tells float32 from float64, and gives every digit
    elif isinstance(value, list | tuple | deque):
        update(f"[{len(value)}".encode())
        for item in value:
            _feed(update, item, above)
    elif isinstance(value, Mapping):
        update(f"{{{len(value)}".encode())
        for key in sorted(value, key=str):
            update(str(key).encode())
            _feed(update, value[key], above)
    elif isinstance(value, np.random.RandomState):
        _feed(update, value.get_state(legacy=False), above)
    elif isinstance(value, np.random.Generator):
        _feed(update, value.bit_generator.state, above)
    elif type(value).__name__ == "ALEInterface":
        update(value.cloneState(include_rng=True).serialize())
    elif isinstance(value, ModuleType | type) or inspect.isroutine(value):
        update(value.__name__.encode())
    elif id(value) not in above:
        update(type(value).__qualname__.encode())
        names = getattr(type(value), "__slots__", None)
        held = vars(value) if hasattr(value, "__dict__") else {name: getattr(value, name) for name in names or ()}
        _feed(update, held, (*above, id(value)))
