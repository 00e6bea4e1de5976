"""How good an agent is, apart from its training: on an environment and with generators of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import TimeLimit

from bdqn.config.seeding import generator, integer_seed
from bdqn.config.settings import SettingError
from bdqn.envs import has_time_limit
from bdqn.envs.interaction import Episode
from bdqn.learner import Learner
from bdqn.qlearning.acting import Actor
from bdqn.qlearning.calibration import Outcomes
from bdqn.qlearning.choices import Policy
from bdqn.qlearning.finite_checks import check_start, check_step
from bdqn.runs.outcomes import OutcomeLog

MAX_STEPS = 27_000  # decisions of an episode that nothing else would end: half an hour of Atari


@dataclass(frozen=True)
class Evaluation:
    """Raw returns and lengths of episodes, and how unsure the agent was while it played them."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    spread: float | None  # epistemic std of Q, averaged over decisions and actions; None: not asked or not known
    cut: int = 0  # how many of them did not come to their end within ``max_steps``; they count up to there
    # What it believed of its actions, and what followed; None: no spread, or another policy than the one that Q is of.
    outcomes: Outcomes | None = field(default=None, compare=False)

    @property
    def mean(self) -> float:
        return fmean(self.returns)

    @property
    def std(self) -> float:
        return pstdev(self.returns)

    @property
    def remark(self) -> str:
        """What must be said of it: which episodes have no end, if there are any."""
        if not self.cut:
            return ""
        return f"{self.cut} of {len(self.returns)} episodes did not end within {max(self.lengths):,} decisions"


class Stopped(Exception):
    """The evaluation was told to stop before its last episode ended."""


def check_can_evaluate(learner: Learner) -> None:
    """Refuse where playing would disturb the training."""
    if isinstance(learner.env_source, VectorEnv):
        raise SettingError(
            "This learner was given a vector environment, which an evaluation would disturb: save it, and load it with "
            "a single one, bdqn.load(path, env=...)."
        )
    if isinstance(learner.env_source, gym.Env):
        raise SettingError(
            "This learner was given an environment instance, which an evaluation would disturb: "
            "make the learner with an id, or with a function that makes an environment."
        )


def evaluate(
    learner: Learner,
    episodes: int,
    *,
    epsilon: float = 0.0,
    deterministic: bool = True,
    seed: int = 0,
    spread: bool = False,
    max_steps: int | None = None,
    policy: Policy | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Evaluation:
    """Play complete episodes greedily under the mean, or as it explores; the learner is left as it was.

    A ``policy`` decides instead, if there is one. ``epsilon`` is the share of random actions, ``spread`` asks how
    unsure the agent is along the way. An episode is cut after ``max_steps`` decisions, or after MAX_STEPS where the
    environment has no time limit of its own: a greedy agent may walk in circles for ever. Where ``stop()`` holds, it
    raises Stopped.
    """
    check_can_evaluate(learner)
    agent = learner.agent
    limit: int | None = None

    def capped(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        nonlocal limit
        limit = max_steps or (None if has_time_limit(env) else MAX_STEPS)
        return TimeLimit(env, limit) if limit else env

    envs = learner.make_envs([integer_seed(seed, "evaluation-environment")], evaluation=True, wrap=capped)
    log = OutcomeLog(learner) if spread and agent.online.head.posterior is not None else None
    by_mean = deterministic and not epsilon and policy is None
    finished: list[Episode] = []
    try:
        check_start(envs.obs, agent.steps)
        actor = Actor(agent, generator(seed, "evaluation"), greedy=deterministic, epsilon=epsilon, policy=policy)
        while len(finished) < episodes:
            if stop():
                raise Stopped
            view = actor.view(envs.obs, envs.allowed)
            action = actor.choose(view)
            step = envs.step(action)
            check_step(step, agent.steps)
            if log is not None:
                log.add(view, action, step)
            actor.advance(step.ended, step.reward, step.obs)
            finished += [episode for episode in step.episodes if not episode.failed]
    finally:
        envs.close()
    return Evaluation(
        returns=tuple(episode.raw_return for episode in finished),
        lengths=tuple(episode.length for episode in finished),
        spread=None if log is None else fmean(log.spreads) * learner.reward_unit,
        cut=sum(episode.truncated and episode.length == limit for episode in finished),
        outcomes=log.outcomes() if log is not None and by_mean else None,
    )
