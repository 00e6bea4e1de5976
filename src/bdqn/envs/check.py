"""Check whether the agents can learn in an environment, by playing a few episodes with random actions.

The findings cover those of the checkers of Gymnasium and Stable-Baselines3, and what our agents need besides: usable
rewards, episodes that end, and episodes that can be repeated and resumed.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import env_checker

from bdqn.envs.adapted import adapted, expected_of
from bdqn.envs.answers import MANY, MANY_ACTIONS, MANY_CATEGORIES, BadAnswer, EnvironmentWarning, Expected, at
from bdqn.envs.atari import AtariEnv
from bdqn.envs.findings import Finding, Level, about_resuming, about_seeds, close, random_actions
from bdqn.envs.make import Source, describe, make_env
from bdqn.envs.records import RecordSpace
from bdqn.envs.spaces import UnsupportedSpace, check_spaces, name_of
from bdqn.envs.supervision import blamed, can_be_timed, time_limit
from bdqn.envs.vector import Environments

__all__ = ["Finding", "check_env", "close"]

MOST_STEPS, MOST_SECONDS = 10_000, 20.0  # limits of the episodes played
PATIENCE = 60.0  # seconds for a single step or reset
WIDE = 100  # bounds this many times wider than the observed range scale numbers to almost zero
SLOW = 100  # decisions per second
# Gymnasium's remarks on bounds and flags, which we cover; it takes NumPy's False for a truncation.
SAID_ABOVE = ("infinity", "signal to be a boolean", "truncates after 1 step")


def check_env(
    source: Source, *, episodes: int = 5, seed: int = 0, env_kwargs: Mapping[str, Any] | None = None
) -> list[Finding]:
    """Play with random actions and return the findings. The agents can learn if none of them is an "error".

    An existing environment is reset and played. An environment that this function makes is closed again.
    """
    try:
        env = make_env(source, env_kwargs=env_kwargs)
    except Exception as error:
        return [Finding("error", "making it", blamed(error) or str(error))]

    def another() -> gym.Env[Any, Any]:
        return env if isinstance(source, gym.Env) else make_env(source, env_kwargs=env_kwargs)

    findings: list[Finding] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EnvironmentWarning)  # the findings cover them
            try:
                for finding in _findings(env, another, episodes, seed):
                    findings.append(finding)
            except UnsupportedSpace as error:
                findings.append(Finding("error", "spaces", str(error)))
            except BadAnswer as error:
                findings.append(Finding("error", "answers", str(error)))
            except Exception as error:
                reason = blamed(error)
                if reason is None:
                    raise
                findings.append(Finding("error", "answers", reason))
    finally:
        if not isinstance(source, gym.Env):
            findings += close(env)
    return findings


def _findings(
    env: gym.Env[Any, Any], another: Callable[[], gym.Env[Any, Any]], episodes: int, seed: int
) -> Iterator[Finding]:
    env = adapted(env)
    check_spaces(env)
    yield from _about_spaces(env)
    seen = _Seen(expected_of(env, set()))
    _play(_Watched(env, seen), seen, episodes, seed)
    for part in seen.parts:
        yield from _about_observations(part)
    yield from _about_rewards(seen)
    yield from _about_episodes(seen, env)
    yield from _about_masks(seen)
    yield about_seeds(env, seed)
    yield about_resuming(env, another, seed)
    yield _about_pictures(env)
    rate = len(seen.rewards) / max(seen.seconds, 1e-9)
    slow = ": the environment will dominate the training time" if rate < SLOW else ""
    yield Finding("note" if slow else "ok", "speed", f"{rate:,.0f} decisions/s with random actions{slow}.")
    if not seen.masks:  # it would take forbidden actions, too
        yield from _gymnasium_says(env)


# --- declarations ---------------------------------------------------------------------------------------------


def _about_spaces(env: gym.Env[Any, Any]) -> Iterator[Finding]:
    actions, space = env.action_space, env.observation_space
    assert isinstance(actions, spaces.Discrete)
    if actions.n > MANY:
        yield Finding("warning", "actions", MANY_ACTIONS.format(name_of(env), int(actions.n)))
    else:
        level: Level = "ok" if actions.n > 1 else "warning"
        yield Finding(level, "actions", f"{actions}" + ("." if actions.n > 1 else ": there is no choice."))
    if isinstance(space, spaces.Discrete) and space.n > MANY:
        yield Finding("warning", "observations", MANY_CATEGORIES.format(name_of(env), int(space.n)))
        return
    if isinstance(space, spaces.Discrete):
        wide = f": the network has {space.n:,} inputs, one per category, and does not generalise between them"
        yield Finding("note" if space.n > 1_000 else "ok", "observations", f"{space}{wide if space.n > 1_000 else '.'}")
        return
    if isinstance(space, RecordSpace):
        parts = (f"{leaf.name}: {leaf.declares}" if leaf.name else leaf.declares for leaf in space.leaves)
        yield Finding("ok", "observations", f"{'; '.join(parts)}.")
        for leaf in space.boxes:
            yield from _about_missing_bounds(leaf.space, leaf.name)
        return
    assert isinstance(space, spaces.Box)
    yield Finding("ok", "observations", f"{space.dtype} of shape {space.shape}.")
    yield from _about_missing_bounds(space)
    if len(space.shape) == 3 and space.dtype.itemsize > 1:
        yield Finding(
            "note",
            "picture",
            f"three axes of {space.dtype}: an image of bytes (uint8 in [0, 255]) takes a fraction of the memory.",
        )


def _about_missing_bounds(space: spaces.Box, part: str = "") -> Iterator[Finding]:
    unbounded = int((~(space.bounded_below & space.bounded_above)).sum())
    if unbounded:
        yield Finding(
            "note",
            "bounds",
            f"{_of(part)}{unbounded} of {space.low.size} numbers have no finite bounds and are not scaled for the "
            "network: declare bounds if they are much larger or smaller than 1.",
        )


def _of(part: str) -> str:
    return f"{part}: " if part else ""


def _about_pictures(env: gym.Env[Any, Any]) -> Finding:
    if "rgb_array" in (env.metadata.get("render_modes") or ()):
        return Finding("ok", "render", "bdqn watch will show its images (rgb_array).")
    return Finding("note", "render", "no render mode rgb_array: bdqn watch will draw observations instead.")


# --- observed values ------------------------------------------------------------------------------------------


@dataclass
class _SeenPart:
    """The numbers of observations, or of one part of them."""

    expected: Expected
    least: Any = np.inf
    most: Any = -np.inf
    kinds: set[str] = field(default_factory=set)
    survive: bool = True  # the values survive conversion to the declared type
    finite: bool = True

    def look_at(self, numbers: Any) -> None:
        array = np.asarray(numbers)
        self.kinds.add(str(array.dtype))
        self.finite = self.finite and bool(np.isfinite(array).all())
        self.survive = self.survive and self.expected.survives(array)
        self.least, self.most = np.fmin(self.least, array), np.fmax(self.most, array)


@dataclass
class _Seen:
    """What was observed in episodes of random actions."""

    expected: Expected
    parts: list[_SeenPart] = field(init=False)
    odd_flags: set[str] = field(default_factory=set)
    masks: str = ""  # how they are offered
    allowed: list[float] = field(default_factory=list)  # share of the actions, at each decision
    rewards: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)  # of finished episodes
    truncated: int = 0  # finished episodes that were truncated
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.parts = [_SeenPart(part) for part in self.expected.parts]

    def look_at(self, observation: Any) -> None:
        for part, numbers in zip(self.parts, self.expected.arrays(observation), strict=True):
            part.look_at(numbers)


class _Watched(gym.Wrapper[Any, Any, Any, Any]):
    """Keep the latest values as returned. `Environments` decides whether they are usable."""

    def __init__(self, env: gym.Env[Any, Any], seen: _Seen) -> None:
        super().__init__(env)
        self.seen = seen
        self.answers: list[Any] = []

    def reset(self, **given: Any) -> Any:
        with _patience():
            self.answers.append(self.env.reset(**given))
        return self.answers[-1]

    def step(self, action: Any) -> Any:
        with _patience():
            began = time.perf_counter()
            self.answers.append(self.env.step(action))
            self.seen.seconds += time.perf_counter() - began
        return self.answers[-1]


def _patience() -> AbstractContextManager[None]:
    """Interrupt a step or reset that hangs, where possible."""
    return time_limit(PATIENCE) if can_be_timed() else nullcontext()


def _play(env: _Watched, seen: _Seen, episodes: int, seed: int) -> None:
    """Play with random actions until enough episodes have ended, or a limit is reached."""
    end = time.perf_counter() + MOST_SECONDS
    envs, rng = Environments([env], [seed]), np.random.default_rng(seed)
    while len(seen.lengths) < episodes and len(seen.rewards) < MOST_STEPS and time.perf_counter() < end:
        if envs.allowed is not None:
            seen.masks = envs.mask_sources
            seen.allowed.append(float(envs.allowed.mean()))
        step = envs.step(random_actions(envs, rng))
        for observation, *rest, _ in env.answers:
            seen.look_at(observation)
            seen.odd_flags |= {type(flag).__name__ for flag in rest[1:] if not isinstance(flag, bool | np.bool_)}
        env.answers.clear()
        seen.rewards += step.reward.tolist()
        seen.lengths += [episode.length for episode in step.episodes]
        seen.truncated += sum(episode.truncated for episode in step.episodes)


def _about_observations(seen: _SeenPart) -> Iterator[Finding]:
    kinds, low, high = " and ".join(sorted(seen.kinds)), np.min(seen.least), np.max(seen.most)
    text, expected = f"{_of(seen.expected.part)}{kinds} from {low:g} to {high:g}", seen.expected
    if not seen.finite:
        yield Finding("error", "seen", f"{text}, with NaN or infinity, which abort a run: remove them with a wrapper.")
    if not seen.survive:
        yield Finding(
            "error",
            "seen",
            f"{text}, but the space declares {expected.declares}, which cannot represent them: the agent sees other "
            "numbers. Declare the actual type, for example Box(low, high, shape, np.float32).",
        )
        return
    yield from _about_bounds(seen, text)
    if seen.finite:
        yield Finding("ok", "seen", f"{text}.")


def _about_bounds(seen: _SeenPart, text: str) -> Iterator[Finding]:
    """The network scales by the declared bounds, which must not be far too narrow or too wide."""
    space = seen.expected.space
    if not isinstance(space, spaces.Box) or space.dtype == np.bool_:
        return
    place = seen.expected.beyond(seen.least, seen.most)
    if place is not None:
        where = f",{at(place)} from {seen.least[place]:g} to {seen.most[place]:g}" if place else ""
        yield Finding(
            "warning",
            "bounds",
            f"{text}{where}, but declared in [{space.low[place]:g}, {space.high[place]:g}]. The network scales by the "
            "declared bounds: correct them, or declare -inf and inf.",
        )
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    size, seen_size = np.fmax(np.abs(low), np.abs(high)), np.fmax(np.abs(seen.least), np.abs(seen.most))
    wide = np.isfinite(size) & (size < 1e30) & (size > WIDE * seen_size) & (seen_size > 0)
    if wide.any():
        worst = tuple(np.argwhere(wide)[0])
        yield Finding(
            "warning",
            "bounds",
            f"{_of(seen.expected.part)}{int(wide.sum())} of {wide.size} numbers stayed far within their bounds, the "
            f"first{at(worst)} from {seen.least[worst]:g} to {seen.most[worst]:g} of "
            f"[{low[worst]:g}, {high[worst]:g}]: the network sees them scaled to almost zero. Declare narrower "
            "bounds.",
        )


def _about_rewards(seen: _Seen) -> Iterator[Finding]:
    rewards = np.array(seen.rewards)
    if not np.isfinite(rewards).all():
        yield Finding(
            "error", "rewards", "some are NaN or infinite, which aborts a run: correct the code that computes them."
        )
        return
    share = np.count_nonzero(rewards) / len(rewards)
    text = f"from {rewards.min():g} to {rewards.max():g}, {100 * share:.3g} % of them not zero"
    if not share:
        yield Finding("note", "rewards", f"{text}: random actions found no reward, so learning needs exploration.")
    elif np.abs(rewards).max() > 100:
        yield Finding("note", "rewards", f"{text}: the preset default scales them; other presets may need reward_clip.")
    else:
        yield Finding("ok", "rewards", f"{text}.")


def _about_episodes(seen: _Seen, env: gym.Env[Any, Any]) -> Iterator[Finding]:
    limited = bool(env.spec and env.spec.max_episode_steps) or isinstance(env.unwrapped, AtariEnv)
    yield Finding("ok", "time limit", f"{describe(env)}.")
    if seen.odd_flags:
        yield Finding(
            "note",
            "episodes",
            f"terminated or truncated was of type {', '.join(sorted(seen.odd_flags))}: return True or False.",
        )
    if not seen.lengths:
        yield Finding(
            "note" if limited else "warning",
            "episodes",
            f"none ended within {len(seen.rewards):,} decisions, but returns are logged when episodes end. "
            "Truncate them, for example with max_episode_steps=... where the environment is registered.",
        )
        return
    ends = f"{len(seen.lengths) - seen.truncated} terminated, {seen.truncated} truncated"
    lengths = f"{min(seen.lengths):,} to {max(seen.lengths):,} decisions"
    yield Finding("ok", "episodes", f"{len(seen.lengths)} of {lengths}, {ends}.")


def _about_masks(seen: _Seen) -> Iterator[Finding]:
    if seen.masks:
        text = f"{seen.masks}, which agents obey; {100 * np.mean(seen.allowed):.0f} % of actions were allowed."
        yield Finding("ok", "action masks", text)


# --- Gymnasium's own checks -----------------------------------------------------------------------------------


def _gymnasium_says(env: gym.Env[Any, Any]) -> Iterator[Finding]:
    """Gymnasium's own checker, for those who share an environment; it does not know our agents."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            env_checker.check_env(env.unwrapped, skip_render_check=True, skip_close_check=True)
            said: dict[str, Level] = {}
        except Exception as error:
            said = {_plain(str(error) or type(error).__name__): "warning"}
    said |= dict.fromkeys((_plain(warning.message) for warning in caught), "note")
    more = {text: level for text, level in said.items() if not any(known in text for known in SAID_ABOVE)}
    yield from (Finding(level, "gymnasium", text) for text, level in more.items())
    if not more:
        yield Finding("ok", "gymnasium", "its own check_env finds nothing else.")


def _plain(message: object) -> str:
    """A message without colours, line breaks and its leading word."""
    text = re.sub(r"\x1b\[\d+m", "", str(message)).removeprefix("WARN: ")
    return re.sub(r"\s+", " ", text).strip()
