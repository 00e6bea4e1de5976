"""What a user holds: an agent, its environments, and questions to ask of its posterior."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike, NDArray

from bdqn.bayes.numerics import Array
from bdqn.config.resolve import Configuration, configure, recipe_named
from bdqn.config.seeding import generator, integer_seed
from bdqn.config.settings import MOST_ENVIRONMENTS, SettingError, Supervision, build, settings_of
from bdqn.envs import AtariSettings, Environments, Source, Supervisor, family_of, make_env, name_of
from bdqn.envs.demonstrations import Demonstrator, demonstrated
from bdqn.envs.gym_vector import VectorEnvironments
from bdqn.envs.interaction import Restart, Step
from bdqn.envs.observations import observation_spec
from bdqn.envs.products import ProductSpace
from bdqn.envs.records import RecordSpace
from bdqn.networks.device import check_device, check_threads
from bdqn.networks.heads import QBelief
from bdqn.networks.threads import best_threads, torch_threads
from bdqn.qlearning.acting import choose
from bdqn.qlearning.agent import QAgent
from bdqn.qlearning.believer import Believer
from bdqn.qlearning.calibration import Calibration
from bdqn.qlearning.memory import check_agent_memory
from bdqn.qlearning.questions import batch_of, masks_of

if TYPE_CHECKING:
    from bdqn.runs.callbacks.base import Given


def make(
    agent: str,
    env: Source,
    *,
    seed: int = 0,
    preset: str = "default",
    num_envs: int = 1,
    device: str = "cpu",
    network: torch.nn.Module | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    restart_env: int = 0,
    step_timeout: float | None = None,
    **settings: Any,
) -> Learner:
    """A learner for a Gymnasium id, a function that makes an environment, or an instance, also of a vector environment.

    ``threads`` are torch's while it learns; unset: one, or as many as torch has for Atari.
    An environment that fails is made anew ``restart_env`` times; a step of more than ``step_timeout`` seconds fails.
    """
    misplaced = [] if isinstance(env, str) else sorted(settings.keys() & settings_of(AtariSettings).keys())
    if misplaced:
        raise SettingError(f"{', '.join(misplaced)} can only be set for an id: set it where the environment is made.")
    return Learner(
        configure(agent, family_of(env), preset, settings),
        env,
        seed=seed,
        num_envs=num_envs,
        device=device,
        network=network,
        env_kwargs=env_kwargs,
        threads=threads,
        supervision=build(Supervision, {"restart_env": restart_env, "step_timeout": step_timeout}),
    )


def _count(source: Source, num_envs: int) -> int:
    """How many environments there are; a vector environment says so itself."""
    if isinstance(source, VectorEnv) and num_envs in (1, source.num_envs):
        num_envs = source.num_envs
    elif isinstance(source, gym.Env | VectorEnv) and num_envs > 1:
        has = f"{source.num_envs} in a vector" if isinstance(source, VectorEnv) else "one environment instance"
        raise SettingError(f"num_envs is {num_envs}, but {has} was given: give a function that makes one.")
    if not 1 <= num_envs <= MOST_ENVIRONMENTS:
        raise SettingError(f"num_envs must be between 1 and {MOST_ENVIRONMENTS}, not {num_envs}.")
    return num_envs


class Learner(Believer):
    """An agent in its environments: learn, predict, and say how sure it is."""

    def __init__(
        self,
        configuration: Configuration,
        env: Source,
        *,
        seed: int = 0,
        num_envs: int = 1,
        device: str = "cpu",
        network: torch.nn.Module | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        threads: int | None = None,
        supervision: Supervision | None = None,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        """``saved`` are the weights that it is about to be given: its network is not made larger than those."""
        num_envs = _count(env, num_envs)
        check_device(device)
        self.configuration, self.env_source, self.seed, self.network = configuration, env, seed, network
        self.env_kwargs = dict(env_kwargs or {})
        self.threads = threads or best_threads(configuration.family)
        check_threads(self.threads)
        self.supervision = supervision or Supervision()
        if self.supervision.restart_env and isinstance(env, gym.Env):
            raise SettingError("restart_env makes new environments, but an instance was given: give a function.")
        if self.supervision and isinstance(env, VectorEnv):
            raise SettingError("restart_env and step_timeout need single environments: give a function, and num_envs.")
        self._said_of_envs: set[str] = set()
        self.envs = self.make_envs([integer_seed(seed, f"environment-{i}") for i in range(num_envs)])
        spec = observation_spec(self.envs.envs[0])
        recipe = recipe_named(configuration.agent)
        choices = recipe.choices(configuration.agent_settings)
        training, num_actions = configuration.training, int(self.envs.action_space.n)
        masked = self.envs.allowed is not None
        check_agent_memory(spec, num_actions, choices, training, masked=masked)
        self.agent = QAgent(
            spec,
            num_actions,
            choices,
            training,
            seed=seed,
            num_envs=num_envs,
            masked=masked,
            device=device,
            network=network,
            saved=saved,
        )
        self.agent.start(self.envs.obs, allowed=self.envs.allowed)
        self._predict_rng = generator(seed, "predict")
        self._amid_decision = False
        self._calibration: Calibration | None = None

    def __repr__(self) -> str:
        configuration = self.configuration
        who = f"{configuration.agent} on {self.env_name}, preset {configuration.preset}, seed {self.seed}"
        return f"<bdqn.Learner: {who}, {self.num_timesteps:,} decisions>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Learner:
        """Another learner that goes on as this one would, environments included."""
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        vars(twin).update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        return twin

    def __reduce__(self) -> Never:
        raise TypeError(
            "A learner cannot be pickled: learner.save(path) keeps its agent, and bdqn.load(path) loads it."
        )

    # --- learning ---------------------------------------------------------------------------------------------

    @property
    def num_timesteps(self) -> int:
        """Decisions taken so far, over all environments."""
        return self.agent.steps

    @property
    def env_name(self) -> str:
        """The environment's id, or the name of its class."""
        if isinstance(self.env_source, str):
            return self.env_source
        return name_of(self.envs.envs[0])

    def make_env(self, *, evaluation: bool = False) -> gym.Env[Any, Any]:
        """Another environment like those that it learns in (the same one, if an instance was given).

        For an ``evaluation`` an Atari protocol may cut episodes sooner.
        """
        by_id = self.configuration.family == "atari" and isinstance(self.env_source, str)
        atari = asdict(self.configuration.atari) if by_id else {}
        if by_id and evaluation and atari["max_episode_frames"] is None:
            atari["max_episode_frames"] = self.configuration.atari.resolve().evaluation_max_frames
        return make_env(self.env_source, env_kwargs=self.env_kwargs, **atari)

    def make_envs(
        self,
        seeds: Sequence[int],
        *,
        evaluation: bool = False,
        wrap: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]] = lambda env: env,
    ) -> Environments:
        """Environments like those that it learns in, wrapped, one for each seed, under the same supervision."""

        def remake(i: int, attempt: int) -> tuple[gym.Env[Any, Any], int]:
            seed = integer_seed(seeds[i], f"restart-{attempt}-after-{self.num_timesteps}")
            return wrap(self.make_env(evaluation=evaluation)), seed

        if isinstance(self.env_source, VectorEnv):
            return VectorEnvironments(self.env_source, seeds, said=self._said_of_envs)
        own, made = self.supervision, [self.make_env(evaluation=evaluation) for _ in seeds]
        apart = [*made, *(self.envs.envs if evaluation else ())]
        if not isinstance(self.env_source, gym.Env) and len({id(env.unwrapped) for env in apart}) < len(apart):
            raise SettingError("The function gave one environment twice, but must make a new one each time.")
        return Environments(
            list(map(wrap, made)),
            seeds,
            supervisor=Supervisor(own.restart_env, own.step_timeout, remake) if own else None,
            said=self._said_of_envs,
        )

    def steps(
        self, total_steps: int, stop: Callable[[], bool] = lambda: False, policy: Demonstrator | None = None
    ) -> Iterator[Step]:
        """Interact and learn for ``total_steps`` decisions, giving each step as it happens; ``policy``: as in `learn`.

        A refit that is cut short because ``stop()`` holds is made up for at the next call.
        """
        self.agent.fit_if_due(stop)
        if self.envs.lost:  # as a resumed run would
            self.load_environment_state(self.environment_state())
        last = self.agent.steps + total_steps
        while self.agent.steps < last:
            given = None if policy is None else demonstrated(policy, self.envs)
            self._amid_decision = True  # the environments may be ahead of the agent
            actions = self.agent.act(self.envs.obs, self.envs.allowed) if given is None else given
            try:
                step = self.envs.step(actions)
            except BaseException as error:  # the agent is as the last decision left it
                self.envs.lost = f"its last step ended in {type(error).__name__}"
                self._amid_decision = False
                raise
            for restart in step.restarts:
                if restart.obs is not None:  # the decision was taken in a new episode, which begins there
                    self._start_anew(restart)
                if restart.action is not None:
                    actions[restart.env] = restart.action
            self.agent.observe(actions, step, stop)
            self._amid_decision = False
            yield step

    def _start_anew(self, restart: Restart) -> None:
        """An environment that was replaced begins an episode; of the rows, only its own is read."""
        assert restart.obs is not None
        rows = self.agent.num_envs
        allowed = None if restart.allowed is None else np.stack([restart.allowed] * rows)
        self.agent.start(np.stack([restart.obs] * rows), np.array([restart.env]), allowed)

    def learn(
        self,
        total_steps: int,
        callback: Given | None = None,
        policy: Demonstrator | None = None,
        *,
        log_freq: int = 1_000,
        eval_freq: int = 0,
        eval_episodes: int = 10,
    ) -> Learner:
        """Learn for ``total_steps`` more decisions; a callback that returns False stops it.

        Args:
            total_steps: Decisions, over all environments.
            callback: Who is told: a `bdqn.Callback`, a function of the learner and each step, or a list of those.
            policy: Decides instead of the agent, which learns from that: it gets the environments' observations (a
                batch), and gives an action for each.
            log_freq: Decisions between the rows of metrics that callbacks are told.
            eval_freq: Decisions between evaluations, which callbacks are told and training does not notice; 0: none.
            eval_episodes: Episodes of each.
        """
        if eval_freq and callback is None:
            raise SettingError("eval_freq evaluates for callbacks: pass one, such as callback=bdqn.ProgressBar().")
        steps = self.steps(total_steps, policy=policy)
        with torch_threads(self.threads):
            if callback is None:
                for _ in steps:
                    pass
            else:
                from bdqn.runs.callbacks.following import follow

                follow(self, steps, total_steps, callback, log_freq, eval_freq, eval_episodes)
        return self

    # --- what it does and believes ----------------------------------------------------------------------------

    def predict(
        self,
        observation: ArrayLike,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        action_masks: ArrayLike | None = None,
    ) -> tuple[NDArray[np.int64], None]:
        """Actions for one observation or a batch: greedy under the mean, or as it explores (one draw per row).

        ``action_masks`` say which actions are allowed, one mask for all or one for each observation; unset: all are.
        """
        batch, single = self._batch(observation)
        index = None if deterministic else self.agent.online.head.draw(self._predict_rng, len(batch))
        view = self.agent.view(batch, index, masks_of(action_masks, len(batch), self.agent.num_actions))
        actions = choose(self.agent, view, self._predict_rng, greedy=deterministic)
        actions = self._as_environments(actions)
        return (actions[0] if single else actions), None

    def q_values(self, observation: ArrayLike) -> Array:
        """Q of every action (the posterior mean, where there is a posterior)."""
        batch, single = self._batch(observation)
        mean = self.reward_unit * self.agent.view(batch).mean.astype(np.float64)
        return mean[0] if single else mean

    def calibrate(self, episodes: int = 100, *, seed: int = 0, max_steps: int | None = None) -> Calibration:
        """Measure how far returns lie from Q in so many episodes, so that `q_posterior` has intervals that hold.

        It plays greedily under the mean, in environments of its own, and learns nothing. An agent that learns on is
        another one: its calibration is dropped. ``max_steps``: as in `bdqn evaluate`.
        """
        from bdqn.runs.calibrating import calibrate

        self._calibration = calibrate(self, episodes, seed=seed, max_steps=max_steps)
        return self._calibration

    @property
    def calibration(self) -> Calibration | None:
        """What `calibrate` found; None if it never ran, or the agent has learned since."""
        known = self._calibration
        return known if known is not None and known.steps == self.num_timesteps else None

    @calibration.setter
    def calibration(self, calibration: Calibration | None) -> None:
        self._calibration = calibration

    def _calibration_by_returns(self) -> Calibration | None:
        return self.calibration

    # --- keeping it -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the agent to a directory: safetensors and JSON, without the replay buffer."""
        from bdqn.storage.saved_agents import save

        save(self, path)

    @property
    def is_whole(self) -> bool:
        """Whether it stands between two decisions, where it can be saved; not where an error cut one short."""
        return not self._amid_decision

    def environment_state(self) -> dict[str, Any]:
        """Where the environments stand, mid-episode, and what else is not the agent's."""
        if not self.is_whole:
            raise RuntimeError("An error cut this learner's last decision short: load its latest checkpoint instead.")
        return {**self.envs.state(), "predict": self._predict_rng.bit_generator.state}

    def load_environment_state(self, state: Mapping[str, Any], *, replay_is_new: bool = False) -> dict[int, str]:
        """Take back what ``environment_state`` gave, after the agent and its replay buffer.

        Says which environments could not be restored, and why: those begin a new episode.
        """
        seeds = [
            integer_seed(self.seed, f"environment-{i}-after-{self.num_timesteps}") for i in range(self.agent.num_envs)
        ]
        restarted = self.envs.load_state(state, seeds)
        self._predict_rng.bit_generator.state = state["predict"]
        if replay_is_new:
            self.agent.replay.start(self.envs.obs, allowed=self.envs.allowed)
        if restarted:
            self.agent.start(self.envs.obs, np.array(sorted(restarted)), self.envs.allowed)
        return restarted

    @property
    def reward_unit(self) -> float:
        """What the agent's Q-values must be multiplied by to be in the environment's rewards."""
        return self.agent.targets.reward_unit or 1.0

    def _belief_at(self, observation: ArrayLike) -> tuple[QBelief, bool]:
        """What is believed at these observations, in the learner's unit, and whether it was a single one."""
        batch, single = self._batch(observation)
        belief = self.agent.view(batch).belief
        if belief is None:
            raise TypeError(
                f"{self.configuration.agent} keeps no posterior over Q; q_values() has its Q-values, "
                "and a Bayesian agent such as bdqn has a posterior."
            )
        return belief, single

    def _batch(self, observation: Any) -> tuple[NDArray[Any], bool]:
        """Observations as the agent sees them, as a batch, and whether it was a single one."""
        space = self.envs.observation_space
        return space.batch(observation) if isinstance(space, RecordSpace) else batch_of(observation, self.agent.spec)

    def _as_environments(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Actions as the environment takes them."""
        space = self.envs.action_space
        return space.combination(actions) if isinstance(space, ProductSpace) else actions + int(space.start)
