"""Make an environment from an id, a function or an environment, and refuse anything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import gymnasium as gym
from gymnasium.vector import VectorEnv

from bdqn.envs.answers import kind_of
from bdqn.envs.atari import AtariEnv, make_atari
from bdqn.envs.catalog import find_spec, is_atari
from bdqn.envs.gym_vector import AnyVectorEnv, is_atari_vector
from bdqn.envs.minatar import MinAtar
from bdqn.envs.supervision import blame

AnyEnv: TypeAlias = gym.Env[Any, Any]
Source: TypeAlias = str | Callable[[], AnyEnv] | AnyEnv | AnyVectorEnv
Family: TypeAlias = Literal["atari", "minatar", "classic"]


class NotAnEnvironment(TypeError):
    """The argument is not an environment."""


def family(source: str | AnyEnv | AnyVectorEnv) -> Family:
    """The family of an id or environment, which selects the preset."""
    if isinstance(source, str):
        if is_atari(find_spec(source)):
            return "atari"
        return "minatar" if source.startswith("MinAtar/") else "classic"
    if isinstance(source, VectorEnv):
        return "atari" if is_atari_vector(source) else "classic"
    if isinstance(source.unwrapped, AtariEnv):
        return "atari"
    return "minatar" if isinstance(source.unwrapped, MinAtar) else "classic"


def family_of(source: Source) -> Family:
    """The family of whatever is given for an environment; a function makes one, which is closed again."""
    if isinstance(source, str | gym.Env | VectorEnv):
        return family(source)
    sample = make_env(source)
    try:
        return family(sample)
    finally:
        with suppress(Exception):
            sample.close()


def make_env(
    source: Source,
    *,
    protocol: str | None = None,
    max_episode_frames: int | None = None,
    life_loss_is_terminal: bool | None = None,
    rgb_mean: bool | None = None,
    bilinear: bool | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> AnyEnv:
    """Make an environment from an id or a zero-argument function, or accept an existing one.

    The first five options apply to Atari, see `AtariSettings`. ``env_kwargs`` are passed to the function that builds
    the environment of an id: `make_atari` or `gymnasium.make`.
    """
    atari_options: dict[str, Any] = {
        name: value
        for name, value in (
            ("protocol", protocol),
            ("max_episode_frames", max_episode_frames),
            ("life_loss_is_terminal", life_loss_is_terminal),
            ("rgb_mean", rgb_mean),
            ("bilinear", bilinear),
        )
        if value is not None
    }
    kwargs = dict(env_kwargs or {})
    if not isinstance(source, str):
        if atari_options or kwargs:
            raise ValueError(
                f"{', '.join([*atari_options, *kwargs])} can be used only with an id: pass them where this "
                "environment is made."
            )
        return _made(source)
    if family(source) == "atari":
        return make_atari(source, **atari_options, **kwargs)
    if atari_options:
        raise ValueError(f"{source} is not an Atari environment: it has no {', '.join(atari_options)}.")
    # The passive checker takes time in every step, and its warnings are for authors of environments.
    spec = find_spec(source)
    try:
        env: AnyEnv = gym.make(spec, disable_env_checker=True, **kwargs)
    except (TypeError, ImportError, gym.error.Error):  # their messages are clear
        raise
    except Exception as error:
        blame(error, f"Making {source}")
        raise
    return env


def _made(source: Callable[[], AnyEnv] | AnyEnv | AnyVectorEnv) -> AnyEnv:
    """An existing environment, or the one that a function makes; anything else is refused."""
    wanted = "give a Gymnasium id, a gymnasium.Env, or a function that makes one"
    if isinstance(source, VectorEnv):
        raise NotAnEnvironment(
            f"{type(source).__name__} is a vector environment, which can be learned in, but not taken apart: to check "
            f"it, to evaluate in it or to watch it, {wanted}."
        )
    if isinstance(source, gym.Env):
        return source
    name = getattr(source, "__name__", type(source).__name__)
    if not callable(source):
        raise NotAnEnvironment(f"env is {kind_of(source)}, which is not a gymnasium.Env{_of_gym(source)}: {wanted}.")
    try:
        env = source()
    except Exception as error:
        blame(error, f"Calling {name}() to make an environment")
        raise
    if isinstance(env, VectorEnv):
        raise NotAnEnvironment(f"{name}() returned a vector environment: give the vector environment itself.")
    if not isinstance(env, gym.Env):
        raise NotAnEnvironment(f"{name}() returned {kind_of(env)}, which is not a gymnasium.Env{_of_gym(env)}.")
    return env


def _of_gym(env: object) -> str:
    """A hint if an environment inherits from Gym, the predecessor of Gymnasium."""
    ancestors = {cls.__module__.partition(".")[0] for cls in type(env).__mro__}
    return " (it inherits from gym, the predecessor: inherit from gymnasium.Env)" if "gym" in ancestors else ""


def describe(env: AnyEnv) -> str:
    """The Atari protocol or the time limit of an environment, on one line."""
    if isinstance(env.unwrapped, AtariEnv):
        return env.unwrapped.description
    limit = env.spec.max_episode_steps if env.spec else None
    return f"truncated after {limit} decisions" if limit else "no time limit registered"


def has_time_limit(env: AnyEnv) -> bool:
    """Whether every episode of an environment is known to end."""
    if isinstance(env.unwrapped, AtariEnv):
        return bool(env.unwrapped.protocol.max_episode_frames)
    return bool(env.spec and env.spec.max_episode_steps)
