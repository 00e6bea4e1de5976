"""N environments stepped together. Terminal, truncated and restarted episodes are kept apart for the learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bdqn.envs.adapted import adapted, expected_of
from bdqn.envs.answers import LOOKS, RESET_CALL, BadAnswer, is_flag, takes_seed
from bdqn.envs.interaction import Episode, Restart, Step
from bdqn.envs.masks import KEY, Mask, MaskReader, all_offer_masks, check_allowed
from bdqn.envs.spaces import check_spaces, name_of
from bdqn.envs.state import CannotRestore, get_state, set_state
from bdqn.envs.supervision import CannotTime, Supervisor, blame, blamed, lasting

#: An environment sets this key of its info if its episode continues but no value should be bootstrapped.
TERMINAL_FOR_LEARNER = "terminal_for_learner"
# Raised by unusable values; RuntimeError: by torch, for a tensor that requires a gradient.
_UNUSABLE = (TypeError, ValueError, AttributeError, OverflowError, RuntimeError)


class Environments:
    """N environments stepped together in this process. Each is reset in the same step in which its episode ends."""

    def __init__(
        self,
        envs: Sequence[gym.Env[Any, Any]],
        seeds: Sequence[int],
        *,
        supervisor: Supervisor | None = None,
        said: set[str] | None = None,
    ) -> None:
        """Seed and reset every environment once. Later resets continue its own random stream.

        A ``supervisor`` replaces environments that fail. Kinds of warnings in ``said`` are not repeated.
        """
        envs = [adapted(env) for env in envs]
        for env in envs:
            check_spaces(env)
        first = envs[0]
        self.envs = tuple(envs)
        self.observation_space = cast(spaces.Box | spaces.Discrete, first.observation_space)
        self.action_space = cast(spaces.Discrete, first.action_space)
        for i, env in enumerate(envs):
            self._require_alike(i, env)
        # Agents number actions from zero, whatever the environment does.
        self._action_start = int(self.action_space.start)
        self._supervisor = supervisor
        self._expected = expected_of(first, set() if said is None else said)
        shape = cast(tuple[int, ...], self.observation_space.shape)
        self._obs = np.empty((len(envs), *shape), self._expected.kept)
        self._masks = MaskReader(name_of(first), self.action_space, by_method=all_offer_masks(envs))
        self._allowed = np.ones((len(envs), self._masks.num_actions), np.bool_)
        for i, seed in zip(range(len(envs)), seeds, strict=True):
            self._begin(i, *self._first_observation(i, int(seed)))
        self._returns = [0.0] * len(envs)
        self._lengths = [0] * len(envs)
        self.lost: str | None = None  # why the state is unknown, after a step that failed halfway

    @property
    def num_envs(self) -> int:
        """N."""
        return len(self.envs)

    @property
    def obs(self) -> NDArray[Any]:
        """Current observations, (N, *obs)."""
        return self._obs

    @property
    def allowed(self) -> NDArray[np.bool_] | None:
        """Which actions are allowed now, (N, actions); None if the environments have no masks."""
        return self._allowed if self._masks.offered else None

    @property
    def mask_sources(self) -> str:
        """How the environments offer action masks, in words; empty: they do not."""
        return self._masks.sources

    def step(self, actions: NDArray[np.integer[Any]] | Sequence[int]) -> Step:
        """Take one decision in every environment."""
        count = len(self.envs)
        next_obs = np.empty_like(self._obs)
        reward = np.empty(count)
        terminal = np.empty(count, np.bool_)
        truncated = np.empty(count, np.bool_)
        over = []
        episodes: list[Episode] = []
        restarts: list[Restart] = []
        expected, shape, supervisor = self._expected, self._expected.shape, self._supervisor
        masked = self._masks.offered
        if masked:
            check_allowed(actions, self._allowed)
            next_allowed = np.ones_like(self._allowed)
        for i, env in enumerate(self.envs):
            action = int(actions[i]) + self._action_start
            try:
                answer: Any = env.step(action) if supervisor is None else supervisor.step(env, action)
            except (CannotTime, BadAnswer):
                raise
            except Exception as error:
                answer = self._step_anew(i, action, error, episodes, restarts)
            try:
                observation, score, terminated, cut_short, info = answer
                if getattr(observation, "shape", None) != shape:
                    observation = expected.array(observation)
                next_obs[i] = observation
                reward[i] = score = float(score)
                terminal[i] = terminated or info.get(TERMINAL_FOR_LEARNER, False)
                truncated[i] = cut_short
                self._lengths[i] += 1
                if self._lengths[i] in LOOKS:
                    if isinstance(answer[1], str) or not (is_flag(terminated) and is_flag(cut_short)):
                        raise TypeError
                    expected.look(observation)
            except _UNUSABLE as error:
                raise expected.refused_step(answer, error) from error
            if (masked or KEY in info) and not terminated:
                next_allowed[i] = self._masks.read(i, info, "step()", self.envs[i])
            self._returns[i] += score
            if terminated or cut_short:
                over.append((i, not terminated))

        ended = np.zeros(count, np.bool_)
        self._obs = next_obs.copy() if over else next_obs
        if masked:
            self._allowed = next_allowed.copy() if over else next_allowed
        for i, cut_short in over:
            ended[i] = True
            episodes.append(Episode(i, self._returns[i], self._lengths[i], cut_short))
            self._returns[i], self._lengths[i] = 0.0, 0
            self._begin(i, *self._next_episode(i, restarts))
        if restarts and supervisor is not None:
            supervisor.report(restarts)
        masks = (next_allowed, self._allowed) if masked else (None, None)
        return Step(next_obs, reward, terminal, truncated, ended, self._obs, tuple(episodes), tuple(restarts), *masks)

    def close(self) -> None:
        """Close every environment and ignore errors: what was learned stays."""
        for env in self.envs:
            with suppress(Exception):
                env.close()

    # --- starting episodes, and restarting after a failure -------------------------------------------------------

    def _begin(self, i: int, observation: Any, mask: Mask | None) -> None:
        """An environment stands at its first observation."""
        self._obs[i] = observation
        if mask is not None:
            self._allowed[i] = mask

    def _first_observation(self, i: int, seed: int | None = None) -> tuple[Any, Mask | None]:
        """Start an episode; with the mask there, if the environments have masks."""
        env, expected = self.envs[i], self._expected
        try:
            answer: Any = env.reset() if seed is None else env.reset(seed=seed)
        except BadAnswer:
            raise
        except Exception as error:
            if seed is not None and not takes_seed(env):
                raise BadAnswer(f"reset() of {expected.name} must accept a seed: {RESET_CALL}.") from error
            blame(error, f"reset() of {expected.name}")
            raise lasting(error) from None
        try:
            observation, info = answer
            if getattr(observation, "shape", None) != expected.shape:
                observation = expected.array(observation)
            if not isinstance(info, Mapping):
                raise TypeError
            expected.look(observation)
        except _UNUSABLE as error:
            raise expected.refused_reset(answer, error) from error
        return observation, self._masks.first(i, info, env)

    def _next_episode(self, i: int, restarts: list[Restart]) -> tuple[Any, Mask | None]:
        """Start the next episode; in a new environment if this one fails."""
        try:
            return self._first_observation(i)
        except BadAnswer:
            raise
        except Exception as error:
            return self._restart(i, error, restarts)

    def _step_anew(
        self, i: int, action: int, error: Exception, episodes: list[Episode], restarts: list[Restart]
    ) -> Any:
        """Truncate the episode of an environment that failed, and take the decision in a new one.

        The agent does not learn from the failed decision, only from the repeated one. Where a mask forbids to repeat
        it, the first action that is allowed takes its place.
        """
        length = self._lengths[i]
        failed = [Episode(i, self._returns[i], length, truncated=True, failed=True)] if length else []
        while True:
            blame(error, f"step() of {self._expected.name}")
            observation, mask = self._restart(i, error, restarts)
            instead = None if mask is None or mask[action - self._action_start] else int(mask.argmax())
            action = action if instead is None else instead + self._action_start
            obs = np.array(observation, self._obs.dtype)
            restarts[-1] = replace(restarts[-1], obs=obs, allowed=mask, action=instead)
            try:
                answer = cast(Supervisor, self._supervisor).step(self.envs[i], action)
            except Exception as again:
                error = again
            else:
                episodes += failed
                self._returns[i], self._lengths[i] = 0.0, 0
                return answer

    def _restart(self, i: int, error: Exception, restarts: list[Restart]) -> tuple[Any, Mask | None]:
        """Start an episode in a new environment after a failure; if no restart is left, raise the error."""
        while self._supervisor is not None and self._supervisor.may_restart:
            restarts.append(Restart(i, blamed(error) or str(error), obs=None))
            try:
                made, seed = self._supervisor.replace(i, self.envs[i])
                env = adapted(made)
                self._require_alike(i, env)
                self.envs = (*self.envs[:i], env, *self.envs[i + 1 :])
                return self._first_observation(i, seed)
            except Exception as again:
                error = again
        raise lasting(error)

    def _require_alike(self, i: int, env: gym.Env[Any, Any]) -> None:
        if (env.observation_space, env.action_space) != (self.observation_space, self.action_space):
            raise ValueError(
                f"Environment {i} has spaces {env.observation_space} and {env.action_space}, "
                f"unlike environment 0 with {self.observation_space} and {self.action_space}."
            )

    # --- saving and restoring -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the whole state, with each environment's own state or the reason why it has none."""
        return {
            "obs": self._obs,
            "returns": list(self._returns),
            "lengths": list(self._lengths),
            **({"allowed": self._allowed} if self._masks.offered else {}),
            "own": self._own_states(),
        }

    def _own_envs(self) -> Sequence[gym.Env[Any, Any]] | str:
        """The environments whose states are saved, or the reason why there are none."""
        return self.envs

    def _own_states(self) -> list[dict[str, Any]]:
        envs = self._own_envs()
        if self.lost or isinstance(envs, str):
            return [{"cannot": self.lost or envs}] * len(self.envs)
        return [_own_state(env) for env in envs]

    def _check_state(self, state: Mapping[str, Any]) -> None:
        if state["obs"].shape != self._obs.shape or state["obs"].dtype != self._obs.dtype:
            raise ValueError(f"observations had the shape {state['obs'].shape}, but now have {self._obs.shape}.")
        if not len(state["returns"]) == len(state["lengths"]) == len(self.envs):
            raise ValueError(
                f"the state has {len(state['returns'])} episodes, but there are {len(self.envs)} environments."
            )

    def load_state(self, state: Mapping[str, Any], seeds: Sequence[int]) -> dict[int, str]:
        """Restore what `state` returned.

        Environments that cannot be restored are seeded and reset instead. Returns their indices with the reasons.
        """
        self._check_state(state)
        self._allowed = self._saved_masks(state.get("allowed"))
        self._obs = state["obs"].copy()
        self._returns = [float(value) for value in state["returns"]]
        self._lengths = [int(value) for value in state["lengths"]]
        restarted = {}
        envs = self._own_envs()
        assert not isinstance(envs, str)
        for i, (env, own, seed) in enumerate(zip(envs, state["own"], seeds, strict=True)):
            reason = own.get("cannot") or _restore(env, own["state"])
            if reason:
                restarted[i] = reason
                self._begin(i, *self._first_observation(i, int(seed)))
                self._returns[i], self._lengths[i] = 0.0, 0
        self.lost = None
        return restarted

    def _saved_masks(self, masks: Any) -> NDArray[np.bool_]:
        own, kind = self._allowed, getattr(masks, "dtype", None)
        if (masks is not None) != self._masks.offered:
            raise ValueError("action masks were saved, or are offered now, but not both.")
        if masks is not None and (kind != np.bool_ or masks.shape != own.shape or not masks.any(1).all()):
            raise ValueError(f"the saved action masks are not {own.shape} booleans that allow an action in each row.")
        return own.copy() if masks is None else masks.copy()

    def unrestorable(self) -> str | None:
        """Why an interrupted episode could not be continued; None if it could."""
        return self._own_states()[0].get("cannot")


def _own_state(env: gym.Env[Any, Any]) -> dict[str, Any]:
    try:
        return {"state": get_state(env)}
    except CannotRestore as error:
        return {"cannot": str(error)}


def _restore(env: gym.Env[Any, Any], state: Mapping[str, Any]) -> str | None:
    """Set an environment's state; return the reason if that fails."""
    try:
        set_state(env, state)
    except CannotRestore as error:
        return str(error)
    return None
