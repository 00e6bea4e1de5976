"""Where transitions come from: a replay buffer, an environment, a Minari data set, or arrays by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from bdqn.attached.agents import QSource
from bdqn.attached.transitions import NAMES, Transitions
from bdqn.config.seeding import integer_seed
from bdqn.config.settings import SettingError
from bdqn.envs import make_env
from bdqn.qlearning import rules


def transitions_of(
    given: Any, source: QSource, *, samples: int, epsilon: float, rng: np.random.Generator
) -> Transitions:
    """The transitions that these words stand for; an environment is played in first."""
    given = source.buffer if given is None else given
    if given is None:
        raise SettingError(
            "There are no transitions: pass a replay buffer, an environment to play in, a Minari data set, or arrays."
        )
    if isinstance(given, Transitions):
        return given
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if hasattr(given, "iterate_episodes"):
        return _of_minari(given)
    if all(hasattr(given, name) for name in ("observations", "dones", "pos", "full")):
        return _of_replay_buffer(given, source.normaliser)
    if isinstance(given, str | gym.Env) or (callable(given) and not inspect.ismodule(given)):
        return _played(given, source, samples, epsilon, rng)
    raise TypeError(
        "transitions must be a replay buffer of Stable-Baselines3, a single Gymnasium environment, its id or a "
        f"function that makes it, a Minari data set, or a dictionary of {', '.join(NAMES)}, not a "
        f"{type(given).__name__}."
    )


def _of_mapping(given: Mapping[str, Any]) -> Transitions:
    missing = [name for name in NAMES if name not in given]
    if missing:
        raise SettingError(f"The transitions have no {', '.join(missing)}: give arrays of {', '.join(NAMES)}.")
    return Transitions.of_arrays(*(given[name] for name in NAMES))


def _of_minari(dataset: Any) -> Transitions:
    """Episodes, whose observations are one more than their actions."""
    episodes = []
    for episode in dataset.iterate_episodes():
        obs = np.asarray(episode.observations)
        if obs.dtype == object:
            raise ValueError("The data set's observations are structured: give arrays of what the network reads.")
        following = (obs[:-1], episode.actions, episode.rewards, obs[1:], episode.terminations)
        episodes.append(Transitions.of_arrays(*following))
    return Transitions.joined(episodes)


def _of_replay_buffer(buffer: Any, normaliser: Any) -> Transitions:
    """Stable-Baselines3's: row by row what its own ``sample`` can return, each once, environment by environment."""
    if isinstance(buffer.observations, Mapping):
        raise ValueError("The buffer's observations are a dictionary: give arrays of what the network reads.")
    size = int(buffer.buffer_size)
    first = int(buffer.pos) if buffer.full else 0
    order = (first + np.arange(size if buffer.full else int(buffer.pos))) % size  # oldest first
    shared = bool(buffer.optimize_memory_usage)
    if shared and buffer.full:
        order = order[1:]  # the newest successor stands where the oldest observation was
    following = buffer.observations[(order + 1) % size] if shared else buffer.next_observations[order]
    # A time limit ends an episode, but not what it is worth; a buffer that does not know them takes all for ends.
    terminal = buffer.dones[order] * (1 - buffer.timeouts[order])
    obs, reward = buffer.observations[order], buffer.rewards[order]
    if normaliser is not None:
        obs, following = normaliser.normalize_obs(obs), normaliser.normalize_obs(following)
        reward = normaliser.normalize_reward(reward)
    shape = (*obs.shape[:2], *buffer.observation_space.shape)  # categories are kept in a column, which they have not
    parts = (obs.reshape(shape), buffer.actions[order], reward, following.reshape(shape), terminal)
    return Transitions.joined(
        Transitions.of_arrays(*(part[:, env] for part in parts)) for env in range(shape[1]) if len(order)
    )


def _played(given: Any, source: QSource, samples: int, epsilon: float, rng: np.random.Generator) -> Transitions:
    """Decisions of the network's own policy, a share ``epsilon`` of them at random."""
    if not 0 <= epsilon <= 1:
        raise SettingError(f"epsilon must lie between 0 and 1, not {epsilon!r}.")
    env = make_env(given)
    space = env.action_space
    if not isinstance(space, gym.spaces.Discrete):
        raise SettingError(f"A posterior over Q needs discrete actions; this environment has {space}.")
    columns: tuple[list[Any], ...] = ([], [], [], [], [])
    try:
        obs, _ = env.reset(seed=integer_seed(int(rng.integers(2**31)), "attach-environment"))
        network = source.network(np.stack([obs, obs]))
        for _ in range(samples):
            if rng.random() < epsilon:
                action = int(rng.integers(space.n))
            else:
                action = int(rules.greedy(network.rows(np.asarray(obs)[None])[1])[0])
            following, reward, terminated, truncated, _ = env.step(action + int(space.start))
            for column, value in zip(columns, (obs, action, reward, following, terminated), strict=True):
                column.append(np.array(value))
            obs = env.reset()[0] if terminated or truncated else following
    finally:
        if env is not given:
            env.close()
    return Transitions.of_arrays(*map(np.stack, columns))
