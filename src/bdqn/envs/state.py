"""The exact state of an environment within an episode, which a resumed run needs to continue exactly.

Your own environment or wrapper takes part by implementing the two methods of `Restorable`. Gymnasium's classic control,
toy text and common wrappers are supported here. Other layers are named, and start a new episode when resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.envs import classic_control, toy_text
from gymnasium.wrappers import common, transform_action, transform_observation, transform_reward

from bdqn.envs import minigrid
from bdqn.envs.products import ProductActions
from bdqn.envs.records import RecordObservations
from bdqn.storage.state_files import to_files

State = dict[str, Any]


@runtime_checkable
class Restorable(Protocol):
    """An environment or wrapper whose episodes survive an interruption.

    A state is a dictionary of NumPy arrays and JSON values, nested as you like. It describes this layer alone: wrapped
    environments have their own state, and ``np_random`` is saved automatically.
    """

    def get_env_state(self) -> Mapping[str, Any]:
        """Return everything in which this layer differs from a new one after reset."""

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_env_state` returned, possibly in a new process."""


class CannotRestore(TypeError):
    """A layer of an environment cannot save or restore its state; the message names it."""


# Attributes that change in an episode, by class. Subclasses may have more, so only these exact classes are supported.
ATTRIBUTES: dict[type, tuple[str, ...]] = {
    classic_control.CartPoleEnv: ("state", "steps_beyond_terminated"),
    classic_control.MountainCarEnv: ("state",),
    classic_control.AcrobotEnv: ("state",),
    toy_text.FrozenLakeEnv: ("s", "lastaction"),
    toy_text.CliffWalkingEnv: ("s", "lastaction"),
    toy_text.TaxiEnv: ("s", "lastaction", "fickle_step"),
    common.TimeLimit: ("_elapsed_steps",),
    common.OrderEnforcing: ("_has_reset",),
    common.Autoreset: ("autoreset",),
    common.RecordEpisodeStatistics: ("episode_count", "episode_returns", "episode_lengths"),
    **dict.fromkeys(
        (
            transform_action.TransformAction,
            transform_observation.TransformObservation,
            transform_observation.FlattenObservation,
            transform_observation.GrayscaleObservation,
            transform_observation.ResizeObservation,
            transform_observation.ReshapeObservation,
            transform_observation.RescaleObservation,
            transform_observation.DtypeObservation,
            transform_reward.TransformReward,
            transform_reward.ClipReward,
            ProductActions,
            RecordObservations,
        ),
        (),
    ),
}


def get_state(env: gym.Env[Any, Any]) -> State:
    """The state of an environment and of all its wrappers."""
    layers = []
    for layer in _layers(env):
        if isinstance(layer, Restorable):
            state = _checked(layer, _own(layer))
        elif _name(layer) in minigrid.STATELESS:
            state = {}
        elif _name(layer) in minigrid.IN_THE_GRID:
            state = minigrid.grid_state(layer)
        elif type(layer) in ATTRIBUTES:
            state = {name: getattr(layer, name) for name in ATTRIBUTES[type(layer)] if hasattr(layer, name)}
        else:
            raise CannotRestore(f"{_name(layer)} has no get_env_state() and set_env_state()")
        layers.append({"class": _name(layer), "state": state})
    return {"layers": layers, "np_random": generator_state(env.unwrapped.np_random)}


def set_state(env: gym.Env[Any, Any], state: Mapping[str, Any]) -> None:
    """Restore what `get_state` returned in an environment that was made the same way and has been reset."""
    layers, names = list(_layers(env)), [saved["class"] for saved in state["layers"]]
    if names != [_name(layer) for layer in layers]:
        raise CannotRestore(f"it was {' around '.join(names)}, but now is {' around '.join(map(_name, layers))}")
    for layer, saved in zip(layers, state["layers"], strict=True):
        if isinstance(layer, Restorable):
            _set_own(layer, saved["state"])
        elif _name(layer) in minigrid.IN_THE_GRID:
            minigrid.set_grid_state(layer, saved["state"])
        elif _name(layer) not in minigrid.STATELESS:
            for name in ATTRIBUTES[type(layer)]:
                if name in saved["state"]:
                    require_like(name, saved["state"][name], getattr(layer, name, None))
                    setattr(layer, name, saved["state"][name])
    set_generator_state(env.unwrapped.np_random, state["np_random"])


def generator_state(rng: np.random.Generator | np.random.RandomState) -> State:
    """The state of a random number generator."""
    if isinstance(rng, np.random.RandomState):
        return dict(rng.get_state(legacy=False))
    return dict(rng.bit_generator.state)


def set_generator_state(rng: np.random.Generator | np.random.RandomState, state: Mapping[str, Any]) -> None:
    """Restore what `generator_state` returned."""
    # NumPy uses this number as an index without checking it.
    if "pos" in state.get("state", {}) and not 0 <= int(state["state"]["pos"]) <= 624:
        raise ValueError("this is not a state of a Mersenne twister.")
    if isinstance(rng, np.random.RandomState):
        rng.set_state(dict(state))
    else:
        rng.bit_generator.state = dict(state)


def require_like(name: str, value: Any, own: Any) -> None:
    """Refuse an attribute of another shape or kind than the environment's own."""
    array, like = np.asarray(value), np.asarray(own)
    number = array.dtype.kind in "biuf" or value is None  # no text, no objects
    # Not the exact dtype: Acrobot starts in float32 and continues in float64.
    if not number or array.shape != like.shape or (array.ndim and array.dtype.kind != like.dtype.kind):
        raise ValueError(f"{name} is {value!r:.80}, which is not like {own!r:.80}.")


def _own(layer: Any) -> Any:
    try:
        return layer.get_env_state()
    except Exception as error:
        raise CannotRestore(f"get_env_state() of {_name(layer)} raised {type(error).__name__}: {error}") from error


def _set_own(layer: Any, state: Any) -> None:
    try:
        layer.set_env_state(state)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError):
        raise  # the state from the file is wrong
    except Exception as error:
        raise CannotRestore(f"set_env_state() of {_name(layer)} raised {type(error).__name__}: {error}") from error


def _checked(layer: gym.Env[Any, Any], state: Any) -> State:
    """The state that a layer returned, if it can be written to a file."""
    try:
        to_files(state)
        return dict(state)
    except (TypeError, ValueError, RecursionError) as error:
        raise CannotRestore(
            f"get_env_state() of {_name(layer)} returned a state that cannot be saved: {error}"
        ) from error


def _layers(env: gym.Env[Any, Any]) -> Iterator[gym.Env[Any, Any]]:
    """All layers, outermost first; the environment itself is the last."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env
    yield env


def _name(layer: gym.Env[Any, Any]) -> str:
    return f"{type(layer).__module__}.{type(layer).__qualname__}"
