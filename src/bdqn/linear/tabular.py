"""Tabular agents: posterior sampling (PSRL), and optimism over models (UCRL2) or by bonuses (UCBVI).

They count transitions and rewards per state, action and step, and use no features. Like the linear agents they differ
in one function: from counts to the Q-function that is acted on. Compare ``psrl``, ``ucrl2`` and ``ucbvi``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bdqn.linear.agents import Plan, greedy
from bdqn.linear.draws import Draws
from bdqn.linear.mdps import Array, Known, optimal_q, q_values
from bdqn.linear.statistics import Episodes


class Counts:
    """Visits, summed rewards and next states of every state and action at every step, updated in place."""

    def __init__(self, known: Known, prior_count: float = 0.0) -> None:
        """``prior_count`` is the total count that a state and action start with, over all successors."""
        shape = known.features.shape[:-1]  # (R, H, S, A)
        self.visits = np.zeros(shape)
        self.reward_sums = np.zeros(shape)
        self.successors = np.full((*shape, known.states), prior_count / known.states)  # (R, H, S, A, S)
        self._replica, self._step = np.ogrid[: shape[0], : shape[1]]

    def add(self, played: Episodes) -> None:
        """Add one episode of every replica."""
        where = (self._replica, self._step, played.states, played.actions)
        self.visits[where] += 1
        self.reward_sums[where] += played.rewards
        before = tuple(np.broadcast_to(index, played.states.shape)[:, :-1] for index in where)
        self.successors[(*before, played.states[:, 1:])] += 1

    @property
    def rewards(self) -> Array:
        """The mean reward; zero where there was none. (R, H, S, A)"""
        return np.asarray(self.reward_sums / np.maximum(self.visits, 1))

    @property
    def frequencies(self) -> Array:
        """How often each next state has followed; uniform where none has. (R, H, S, A, S)"""
        totals = self.successors.sum(-1, keepdims=True)
        states = self.successors.shape[-1]
        return np.asarray(np.where(totals > 0, self.successors / np.maximum(totals, 1), 1 / states))


Index = Callable[[Counts, Draws], Array]  # the Q-function to act on (R, H, S, A)


@dataclass
class TabularAgent:
    """Counts, and what is made of them."""

    counts: Counts
    index: Index

    def plan(self, draws: Draws) -> Plan:
        q = self.index(self.counts, draws)
        return Plan(greedy(q), q)

    def observe(self, played: Episodes) -> None:
        self.counts.add(played)


def psrl(gamma: float, reward_prior_var: float, noise_var: float) -> Index:
    """Draw an MDP from the exact posterior and act optimally in it (Osband et al. 2013).

    Transitions are Dirichlet and mean rewards Gaussian, independently per state, action and step.
    """
    ridge = noise_var / reward_prior_var

    def index(counts: Counts, draws: Draws) -> Array:
        precision = counts.visits + ridge
        noise = draws.normal(*precision.shape[1:])
        rewards = counts.reward_sums / precision + np.sqrt(noise_var / precision) * noise
        return optimal_q(rewards, draws.dirichlet(counts.successors), gamma)

    return index


def ucbvi(gamma: float, bonus: Callable[[Array], Array]) -> Index:
    """Act optimally in the mean model, with a bonus on rewards that depends on visits (Azar et al. 2017)."""

    def index(counts: Counts, draws: Draws) -> Array:
        optimistic = counts.rewards + bonus(counts.visits)
        return _look_back(optimistic, counts.frequencies, gamma, lambda h, transitions, value: transitions)

    return index


def ucrl2(gamma: float, reward_radius: Callable[[Array], Array], transition_radius: Callable[[Array], Array]) -> Index:
    """Act optimally in the best plausible model (Jaksch et al. 2010): rewards and transitions within their radii.

    Both radii are functions of visits; that of transitions is in the 1-norm.
    """

    def index(counts: Counts, draws: Draws) -> Array:
        radius = transition_radius(counts.visits)
        return _look_back(
            counts.rewards + reward_radius(counts.visits),
            counts.frequencies,
            gamma,
            lambda h, transitions, value: best_transitions(transitions, radius[:, h], value),
        )

    return index


def _look_back(
    rewards: Array, transitions: Array, gamma: float, plausible: Callable[[int, Array, Array], Array]
) -> Array:
    """Backward induction with values clipped to [0, 1], the range of V*. (R, H, S, A)

    ``plausible`` gives the transitions of step h to use, given those observed and the value of the next step.
    """
    q = np.empty_like(rewards)
    value = np.zeros((rewards.shape[0], rewards.shape[2]))
    for h in reversed(range(rewards.shape[1])):
        q[:, h] = np.minimum(q_values(rewards[:, h], plausible(h, transitions[:, h], value), gamma, value), 1.0)
        value = np.maximum(q[:, h].max(-1), 0.0)
    return q


def best_transitions(transitions: Array, radius: Array, value: Array) -> Array:
    """The probabilities within ``radius`` in 1-norm that lead to the largest expected ``value``. (R, S, A, S)

    transitions (R, S, A, S), radius (R, S, A), value (R, S). Half of the radius goes to the best next state, and is
    taken from the worst ones (Jaksch et al. 2010, Figure 2).
    """
    order = np.argsort(-value, axis=-1)  # the best first
    at = np.broadcast_to(order[:, None, None, :], transitions.shape)
    best_first = np.take_along_axis(transitions, at, -1)
    best_first[..., 0] = np.minimum(1.0, best_first[..., 0] + radius / 2)
    kept = np.minimum(best_first.cumsum(-1), 1.0)  # what the best k states have together, at most all
    plausible = np.empty_like(best_first)
    np.put_along_axis(plausible, at, np.diff(kept, axis=-1, prepend=0.0), -1)
    return plausible
