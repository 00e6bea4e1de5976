"""LinPSRL and LinUCB (Algorithms 1 and 2), and the agents that they are compared with.

All linear agents share one backward pass, ``bdqn.linear.planning``. They differ in the judge that they pass to it:
compare ``linucb`` and ``linpsrl``. Agents that count states instead are in ``bdqn.linear.tabular``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from bdqn.bayes.posterior import Prior
from bdqn.linear.boldness import Boldness
from bdqn.linear.confidence import Confidence, ConfidenceSet
from bdqn.linear.draws import Draws
from bdqn.linear.mdps import Array, Known
from bdqn.linear.planning import Belief, Guess, Judge, Step, look_back
from bdqn.linear.statistics import Episodes, Memory, Statistics

TIE = 1e-9  # indices closer than this differ only by rounding


@dataclass(frozen=True)
class Plan:
    """An agent's policy for the next episode, the Q-function that it comes from, and the confidence sets, if any."""

    policy: Array  # (R, H, S, A) probabilities
    q: Array  # (R, H, S, A)
    sets: tuple[ConfidenceSet, ...] = ()  # one per step


class Agent(Protocol):
    """An agent plans an episode and learns from it."""

    def plan(self, draws: Draws) -> Plan: ...

    def observe(self, played: Episodes) -> None: ...


def linucb(belief: Belief, draws: Draws) -> tuple[Guess, Guess]:
    """Act on the best plausible Q-function, teach the worst plausible one."""
    return belief.optimistic(), belief.pessimistic()


def linpsrl(target: Literal["sample", "mean", "pessimistic"], boldness: Boldness) -> Judge:
    """Act on one draw from the posterior, teach the same draw (or the mean, or the worst plausible Q-function).

    The draw is as many times wider than the posterior as ``boldness`` says.
    """

    def judge(belief: Belief, draws: Draws) -> tuple[Guess, Guess]:
        drawn = Guess(belief.posterior.at(boldness.inflation[:, None] * draws.normal(belief.posterior.dim)))
        return drawn, {"sample": drawn, "mean": belief.expected(), "pessimistic": belief.pessimistic()}[target]

    return judge


def lsvi(belief: Belief, draws: Draws) -> tuple[Guess, Guess]:
    """Act on the estimate and teach it; the policy explores."""
    return belief.expected(), belief.expected()._replace(within_unit=True)


def lsvi_ucb(bonus: float) -> Judge:
    """Act on the estimate plus a bonus, and teach the same: optimism propagates (Jin et al. 2020)."""

    def judge(belief: Belief, draws: Draws) -> tuple[Guess, Guess]:
        optimistic = Guess(belief.posterior.mean, np.full(len(belief.theta), bonus), within_unit=True)
        return optimistic, optimistic

    return judge


Policy = Callable[[Array], Array]  # from indices (..., A) to probabilities


def greedy(index: Array) -> Array:
    """The best action; ties are broken uniformly."""
    best = index >= index.max(-1, keepdims=True) - TIE
    return np.asarray(best / best.sum(-1, keepdims=True))


def epsilon_greedy(epsilon: float) -> Policy:
    """A uniform action with probability epsilon, otherwise the best action."""
    return lambda index: (1 - epsilon) * greedy(index) + epsilon / index.shape[-1]


def boltzmann(temperature: float) -> Policy:
    """A softmax over the indices."""

    def policy(index: Array) -> Array:
        weights = np.exp((index - index.max(-1, keepdims=True)) / temperature)
        return np.asarray(weights / weights.sum(-1, keepdims=True))

    return policy


@dataclass
class LinearAgent:
    """Statistics, a judge and a policy; ``boldness`` is that of the judge's draws."""

    known: Known
    prior: Prior
    judge: Judge
    policy: Policy = greedy
    confidence: Confidence | None = None
    boldness: Boldness | None = None
    memory: Statistics = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Statistics(self.known.features)

    def steps(self, memory: Memory, draws: Draws) -> list[Step]:
        """The plan of the next episode, given the content of a memory."""
        if self.boldness is not None:
            self.boldness.choose(draws)
        return look_back(memory, self.known, self.prior, self.judge, self.confidence, draws)

    def plan(self, draws: Draws) -> Plan:
        steps = self.steps(self.memory, draws)
        q = np.stack([step.belief.q(step.act) for step in steps], axis=1)  # (R, H, S, A)
        # The sets bound an agent's regret only if it acts optimistically.
        optimistic = self.judge is linucb
        return Plan(self.policy(q), q, tuple(step.set for step in steps if step.set is not None and optimistic))

    def observe(self, played: Episodes) -> None:
        self.memory.add(played)
        self.observe_returns(played.rewards @ self.known.discounts)

    def observe_returns(self, returns: Array) -> None:
        """Learn what an episode has returned (R,): all that boldness depends on."""
        if self.boldness is not None:
            self.boldness.add(returns)
