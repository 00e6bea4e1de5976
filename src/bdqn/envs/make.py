"""From an id, a function or an environment to an environment, refusing what cannot be meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import gymnasium as gym

from bdqn.envs.atari import AtariEnv, make_atari
from bdqn.envs.catalog import find_spec, is_atari
from bdqn.envs.minatar import MinAtar

AnyEnv: TypeAlias = gym.Env[Any, Any]
Source: TypeAlias = str | Callable[[], AnyEnv] | AnyEnv
Family: TypeAlias = Literal["atari", "minatar", "classic"]


def family(source: str | AnyEnv) -> Family:
    """Say which kind of environment an id names, or an environment is: presets and networks go by it."""
    if isinstance(source, str):
        if is_atari(find_spec(source)):
            return "atari"
        return "minatar" if source.startswith("MinAtar/") else "classic"
    if isinstance(source.unwrapped, AtariEnv):
        return "atari"
    return "minatar" if isinstance(source.unwrapped, MinAtar) else "classic"


def make_env(
    source: Source,
    *,
    protocol: str | None = None,
    max_episode_frames: int | None = None,
    life_loss_is_terminal: bool | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> AnyEnv:
    """Make an environment from an id or a zero-argument function, or take one that is made.

    The first three options are Atari's, see `AtariSettings`; ``env_kwargs`` go to what builds the environment
    of an id: `make_atari` or `gymnasium.make`.
    """
    atari_options: dict[str, Any] = {
        name: value
        for name, value in (
            ("protocol", protocol),
            ("max_episode_frames", max_episode_frames),
            ("life_loss_is_terminal", life_loss_is_terminal),
        )
        if value is not None
    }
    kwargs = dict(env_kwargs or {})
    if not isinstance(source, str):
        if atari_options or kwargs:
            raise ValueError(
                f"{', '.join([*atari_options, *kwargs])} can be applied only to an environment made from an "
                "id; use them where this one is made."
            )
        return source if isinstance(source, gym.Env) else source()
    if family(source) == "atari":
        return make_atari(source, **atari_options, **kwargs)
    if atari_options:
        raise ValueError(f"{source} is not an Atari environment: it has no {', '.join(atari_options)}.")
    # The passive checker costs time in every step, and warns of what concerns an environment's author.
    env: AnyEnv = gym.make(find_spec(source), disable_env_checker=True, **kwargs)
    return env


def describe(env: AnyEnv) -> str:
    """Say on one line what is in force beyond the game itself: the Atari protocol, or a time limit."""
    if isinstance(env.unwrapped, AtariEnv):
        return env.unwrapped.description
    limit = env.spec.max_episode_steps if env.spec else None
    return f"truncated after {limit} decisions" if limit else "no time limit"
