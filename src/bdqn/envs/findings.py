"""Findings about an environment, and those that compare episodes: can they be repeated and resumed?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from bdqn.envs.interaction import Step
from bdqn.envs.vector import Environments
from bdqn.storage.state_files import from_files, to_files

Level = Literal["ok", "note", "warning", "error"]
REPEATED = 200  # decisions that are repeated and compared


@dataclass(frozen=True)
class Finding:
    """One finding, with advice."""

    level: Level
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.level:<8}{self.subject:<14}{self.text}"


def close(env: gym.Env[Any, Any]) -> list[Finding]:
    """Close an environment, and report a failure."""
    try:
        env.close()
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        return [
            Finding("warning", "closing", f"close() raised {what}: its resources may stay open. Training continues.")
        ]
    return []


def about_seeds(env: gym.Env[Any, Any], seed: int) -> Finding:
    """Whether the same seed gives the same episodes."""
    first, again = (_trace(Environments([env], [seed]), seed) for _ in range(2))
    differ = next((i for i, (a, b) in enumerate(zip(first, again, strict=True)) if a != b), None)
    if differ is None:
        return Finding("ok", "seeds", f"the same seed gave the same {len(first) - 1} decisions again.")
    return Finding(
        "warning",
        "seeds",
        f"the same seed and actions gave another result {'at reset' if not differ else f'at decision {differ}'}: runs "
        "cannot be repeated. Call super().reset(seed=seed), and draw all random numbers from self.np_random.",
    )


def about_resuming(env: gym.Env[Any, Any], another: Callable[[], gym.Env[Any, Any]], seed: int) -> Finding:
    """Whether a saved episode continues exactly in another environment."""
    envs = Environments([env], [seed])
    _trace(envs, seed, 3)
    reason = envs.unrestorable()
    if reason:
        return Finding("note", "resume", f"a resumed run will start a new episode: {reason}.")
    saved = to_files(envs.state())
    continued = _trace(envs, seed)
    other = another()
    try:
        restored = Environments([other], [seed + 1])
        failed = restored.load_state(from_files(*saved), [seed]) or _trace(restored, seed) != continued
        what = "continued differently" if failed is True else "could not be restored"
    except Exception as error:
        failed, what = True, f"could not be restored ({type(error).__name__}: {error})"
    finally:
        if other is not env:
            close(other)
    if failed:
        return Finding(
            "warning",
            "resume",
            f"a saved episode {what}: a resumed run will differ. get_env_state() must return everything that changes "
            "in an episode, and set_env_state() must restore it.",
        )
    return Finding("ok", "resume", "its state can be saved and restored, so a resumed run continues exactly.")


def _trace(envs: Environments, seed: int, steps: int = REPEATED) -> list[bytes]:
    """The results of some decisions, bit by bit."""
    rng = np.random.default_rng(seed)
    taken = (envs.step(random_actions(envs, rng)) for _ in range(steps))
    return [envs.obs.tobytes(), *map(_bits, taken)]


def random_actions(envs: Environments, rng: np.random.Generator) -> NDArray[np.int64]:
    """One action for each environment, of those allowed."""
    if envs.allowed is None:
        return rng.integers(envs.action_space.n, size=envs.num_envs)
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in envs.allowed])


def _bits(step: Step) -> bytes:
    return b"".join(part.tobytes() for part in (step.next_obs, step.reward, step.terminal, step.ended, step.obs))
