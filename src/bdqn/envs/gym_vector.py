"""A vector environment of Gymnasium, or ale-py's own for Atari, in the place of the loop over single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from bdqn.envs.adapted import adapted, expected_of
from bdqn.envs.answers import BadAnswer, kind_of
from bdqn.envs.catalog import find_spec, is_atari
from bdqn.envs.extras import import_extra
from bdqn.envs.interaction import Episode, Step
from bdqn.envs.masks import INFO, KEY, METHOD, Mask, MaskReader, check_allowed
from bdqn.envs.products import ProductSpace
from bdqn.envs.records import RecordSpace
from bdqn.envs.settings import AtariSettings
from bdqn.envs.spaces import check_spaces, name_of
from bdqn.envs.supervision import blame
from bdqn.envs.vector import TERMINAL_FOR_LEARNER, Environments

AnyVectorEnv = VectorEnv[Any, Any, Any]
Resetting = Literal["same step", "by a mask", "next step"]
OTHERS = "dqn or machado"  # protocols that ale-py's vector environment can follow
SAME_STEP = "gymnasium.vector.AutoresetMode.SAME_STEP"
# Without the mode "sync" it gives an environment's own vector version, whose way to begin episodes is fixed.
MAKE_VEC = f'gymnasium.make_vec(..., vectorization_mode="sync", vector_kwargs={{"autoreset_mode": {SAME_STEP}}})'


class NotSameStep(ValueError):
    """A vector environment begins episodes in a way that cannot be converted."""


class Member(gym.Env[Any, Any]):
    """What all environments of a vector environment have in common; it cannot be stepped itself."""

    def __init__(self, env: AnyVectorEnv) -> None:
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space
        self.spec = env.spec
        #: Observations are this many frames, where that is known; a wrapper could change them behind our back.
        self.frame_stack = int((env.single_observation_space.shape or (0,))[0]) if is_atari_vector(env) else 0


class VectorEnvironments(Environments):
    """Steps a vector environment. Where an episode ends, its next one begins in the same step."""

    def __init__(self, env: AnyVectorEnv, seeds: Sequence[int], *, said: set[str] | None = None) -> None:
        """Seed and reset the environments once."""
        self.env, self._resetting = env, _resetting(env)
        self._singles = tuple(env.envs) if isinstance(env, SyncVectorEnv) else None
        name = name_of(self._singles[0]) if self._singles else type(env.unwrapped).__name__
        member = adapted(type(name, (Member,), {})(env))  # messages call environments by the name of their class
        check_spaces(member)
        self.envs = (member,) * env.num_envs
        self.observation_space = cast(spaces.Box | spaces.Discrete, member.observation_space)
        self.action_space = cast(spaces.Discrete, member.action_space)
        self._stack = member.unwrapped.frame_stack  # type: ignore[attr-defined]
        self._expected = expected_of(member, set() if said is None else said)
        self._masks = MaskReader(name, self.action_space, by_method=False)
        self._allowed = np.ones((env.num_envs, self._masks.num_actions), np.bool_)
        self._reset(seeds)
        self.lost = None

    def step(self, actions: NDArray[np.integer[Any]] | Sequence[int]) -> Step:
        """Take one decision in every environment."""
        if self._masks.offered:
            check_allowed(actions, self._allowed)
        taken = self._own_actions(np.asarray(actions))
        obs, rewards, terminations, truncations, infos = self._call("step", taken)
        next_obs, reward = self._rows(obs), np.array(rewards, np.float64)
        terminated, truncated = np.array(terminations, np.bool_), np.array(truncations, np.bool_)
        ended = terminated | truncated
        self._lengths = [length + 1 for length in self._lengths]
        self._returns = [total + score for total, score in zip(self._returns, reward.tolist(), strict=True)]
        over = np.flatnonzero(ended).tolist()
        first, first_infos, last_infos = self._ends(next_obs, ended, infos, taken) if over else (next_obs, infos, infos)
        self._repeat_first_frames(next_obs)
        next_allowed = self._masks_after(infos, last_infos, terminated, ended)
        terminal = terminated | np.asarray(infos.get(TERMINAL_FOR_LEARNER, False), np.bool_)
        episodes = tuple(Episode(i, self._returns[i], self._lengths[i], not terminated[i]) for i in over)
        self._obs = next_obs.copy() if over else next_obs
        if next_allowed is not None:
            self._allowed = next_allowed.copy() if over else next_allowed
        for i in over:
            self._returns[i], self._lengths[i] = 0.0, 0
            self._begin(i, first[i], self._masks.first(i, _info_of(first_infos, i)))
        if over:
            self._repeat_first_frames(self._obs)
        masks = () if next_allowed is None else (next_allowed, self._allowed)
        return Step(next_obs, reward, terminal, truncated, ended, self._obs, episodes, (), *masks)

    def _ends(
        self, next_obs: NDArray[Any], ended: NDArray[np.bool_], infos: Mapping[str, Any], taken: Any
    ) -> tuple[NDArray[Any], Mapping[str, Any], Mapping[str, Any]]:
        """Put final observations in their places; gives the first ones, their infos, and those of the final ones."""
        if self._resetting == "same step":
            first = next_obs.copy()
            for i in np.flatnonzero(ended):
                next_obs[i] = self._row(infos["final_obs"][i])
            return first, infos, infos.get("final_info", {})
        if self._resetting == "by a mask":
            obs, first_infos = self._call("reset", options={"reset_mask": ended.copy()})
        else:  # there is only one environment: the next step resets it, whatever the action
            obs, _, _, _, first_infos = self._call("step", taken)
        return self._rows(obs), first_infos, infos

    def _masks_after(
        self,
        infos: Mapping[str, Any],
        last_infos: Mapping[str, Any],
        terminated: NDArray[np.bool_],
        ended: NDArray[np.bool_],
    ) -> NDArray[np.bool_] | None:
        """The masks of all successors; None: there are no masks."""
        if not self._masks.offered and KEY not in infos:
            return None
        allowed = np.ones_like(self._allowed)
        for i in np.flatnonzero(~terminated).tolist():
            allowed[i] = self._masks.read(i, _info_of(last_infos if ended[i] else infos, i), "step()")
        return allowed

    # --- observations and actions -----------------------------------------------------------------------------

    def _rows(self, obs: Any) -> NDArray[Any]:
        """The observations of all environments, as a new array."""
        space = self.observation_space
        if isinstance(space, RecordSpace):
            return space.batch(obs)[0]
        rows = np.array(obs, self._expected.kept)
        if rows.shape != (len(self.envs), *self._expected.space.shape):
            declares = self._expected.declares
            raise BadAnswer(f"{self._expected.name} gave {kind_of(obs)}, but declares {declares} for each environment.")
        return rows

    def _row(self, obs: Any) -> Any:
        space = self.observation_space
        return space.pack(obs) if isinstance(space, RecordSpace) else obs

    def _own_actions(self, actions: NDArray[Any]) -> Any:
        space = self.action_space
        return space.combination(actions) if isinstance(space, ProductSpace) else actions + int(space.start)

    def _repeat_first_frames(self, obs: NDArray[Any]) -> None:
        """Before its fourth frame an episode repeats its first, as the replay buffer does; ale-py has zeros there."""
        if self._stack:
            for i, length in enumerate(self._lengths):
                if (before := self._stack - 1 - length) > 0:
                    obs[i, :before] = obs[i, before]

    # --- starting, saving and restoring -----------------------------------------------------------------------

    def _reset(self, seeds: Sequence[int]) -> None:
        obs, infos = self._call("reset", seed=_seed_of(self.env, [int(seed) for seed in seeds]))
        if not isinstance(infos, Mapping):  # as Gymnasium's DictInfoToList gives it
            raise BadAnswer(
                f"{type(self.env).__name__} gave {kind_of(infos)} as info, but must give one dictionary for all "
                "environments: leave out the wrapper that changes it."
            )
        self._returns, self._lengths = [0.0] * len(self.envs), [0] * len(self.envs)
        self._obs = self._rows(obs)
        self._repeat_first_frames(self._obs)
        for i, row in enumerate(self._obs):
            self._expected.look(row)
            self._begin(i, row, self._masks.first(i, _info_of(infos, i)))
        if not self._masks.offered and _has_method(self.env):
            raise BadAnswer(
                f"{self._masks.name} has a method {METHOD}(), which a vector environment cannot ask: give masks as "
                f"{INFO}, or give a function that makes one environment, and num_envs."
            )

    def _first_observation(self, i: int, seed: int | None = None) -> tuple[Any, Mask | None]:
        assert self._singles is not None
        observation, info = self._singles[i].reset(seed=seed)
        return self._row(observation), self._masks.first(i, info)

    def _own_envs(self) -> Sequence[gym.Env[Any, Any]] | str:
        return self._singles or f"{type(self.env).__name__} cannot save the state of its environments"

    def load_state(self, state: Mapping[str, Any], seeds: Sequence[int]) -> dict[int, str]:
        """Restore what `state` returned; environments that cannot be restored one by one all begin new episodes."""
        cannot = [own["cannot"] for own in state["own"] if "cannot" in own]
        if self._singles and not cannot:
            return super().load_state(state, seeds)
        self._check_state(state)
        self._reset(seeds)
        self.lost = None
        return dict.fromkeys(range(len(self.envs)), cannot[0] if cannot else str(self._own_envs()))

    def close(self) -> None:
        """Close the vector environment and ignore errors: what was learned stays."""
        try:
            self.env.close()
        except Exception:
            return

    def _call(self, method: str, *args: Any, **given: Any) -> Any:
        try:
            return getattr(self.env, method)(*args, **given)
        except Exception as error:
            blame(error, f"{method}() of {type(self.env).__name__}")
            raise


def make_atari_vector(id_or_game: str, num_envs: int, protocol: str = "dqn", **given: Any) -> AnyVectorEnv:
    """ale-py's own vector environment under one of our protocols: raw rewards, no FIRE, resets in the same step.

    It runs in threads. ``given`` are further arguments of `ale_py.vector_env.AtariVectorEnv`, such as ``num_threads``.
    """
    rules = AtariSettings(protocol).resolve()
    if rules.rgb_mean or rules.bilinear or rules.life_loss_is_terminal or rules.pooled_frames != (3, 4):
        raise ValueError(
            f"ale-py's vector environment cannot follow the protocol {protocol}: use {OTHERS}, or our own loop "
            f"(bdqn.make(..., {id_or_game!r}, num_envs={num_envs}))."
        )
    roms, vector = (import_extra(f"ale_py.{name}", "atari") for name in ("roms", "vector_env"))
    game = id_or_game if id_or_game in roms.get_all_rom_ids() else _game_of(id_or_game)
    if num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, not {num_envs}.")
    options = {
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "reward_clipping": False,
        "use_fire_reset": False,
        "frameskip": rules.frames_per_decision,
        "repeat_action_probability": rules.repeat_action_probability,
        "noop_max": rules.max_noops,
        "max_num_frames_per_episode": rules.max_episode_frames,
    }
    env: AnyVectorEnv = vector.AtariVectorEnv(game, num_envs, **{**options, **given})
    return env


def _game_of(env_id: str) -> str:
    spec = find_spec(env_id)
    if not is_atari(spec):
        raise ValueError(f"{env_id} is no Atari game: give an id such as ALE/Pong-v5, or a game such as pong.")
    return str(spec.kwargs["game"])


def is_atari_vector(env: AnyVectorEnv) -> bool:
    """Whether this is ale-py's own vector environment, of stacks of gray screens."""
    return _is_ale(env) and len(env.single_observation_space.shape or ()) == 3


def _seed_of(env: AnyVectorEnv, seeds: list[int]) -> Any:
    """Seeds as its reset takes them: one for each environment, or, as Gymnasium's interface has it, one for all."""
    if _is_ale(env.unwrapped):
        return np.array(seeds)
    return seeds if _is_of_single_ones(env) else seeds[0]


def _is_of_single_ones(env: AnyVectorEnv) -> bool:
    """Whether it is one of Gymnasium's own, which step environments that were made one by one."""
    return isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)


def _is_ale(env: AnyVectorEnv) -> bool:
    return type(env).__module__.startswith("ale_py")


def _has_method(env: AnyVectorEnv) -> bool:
    """Whether single environments offer masks by a method; others than Gymnasium's own cannot be asked."""
    bare: Any = env.unwrapped
    return _is_of_single_ones(env) and any(bare.call("has_wrapper_attr", METHOD))


def _resetting(env: AnyVectorEnv) -> Resetting:
    """How the next episode of an environment is begun in the step in which one ends."""
    mode = env.metadata.get("autoreset_mode")
    if mode == AutoresetMode.SAME_STEP:
        return "same step"
    if type(env) in (SyncVectorEnv, AsyncVectorEnv):  # they reset what a mask says; wrappers may not be told of it
        return "by a mask"
    if mode == AutoresetMode.NEXT_STEP and env.num_envs == 1:
        return "next step"
    can_be_set = _is_of_single_ones(env) or _is_ale(env.unwrapped)
    advice = f"make it with autoreset_mode={SAME_STEP}" if can_be_set else f"use {MAKE_VEC}"
    raise NotSameStep(
        f"{type(env).__name__} does not begin the next episode in the step in which one ends: {advice}, or give a "
        "function that makes one environment, and num_envs."
    )


def _info_of(infos: Mapping[str, Any], i: int) -> dict[str, Any]:
    """What the infos of all environments say of the mask of one."""
    said_by = infos.get(f"_{KEY}")  # which environments gave one
    return {KEY: infos[KEY][i]} if KEY in infos and (said_by is None or said_by[i]) else {}
