"""Families of problems: each is a dataclass of its sizes, and ``make(rng)`` builds one instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bdqn.config.settings import setting
from bdqn.linear.mdps import MDP, Array, Replicas


class Family(Protocol):
    """A family of problems."""

    def make(self, rng: np.random.Generator) -> MDP:
        """Build one instance; ``rng`` makes all random choices."""
        ...


@dataclass(frozen=True)
class LinearQ:
    """Linear Q* in an MDP that is not linear: the paper's assumption alone.

    Built backwards. Kernel P_h and weights omega_h are arbitrary; the rewards r_h = Q_h - gamma E V_{h+1} make them
    optimal. Q_h = u . w_h + c_h with unit vectors u, |w_h| = s = 1 / (2H + 1) and c_h = gamma c_{h+1} + 2s, so that
    rewards are not negative and Q* lies in [0, 1]. Features are (u, 1), hence L = sqrt(2).
    """

    states: int = setting(8, "states", minimum=1)
    actions: int = setting(3, "actions", minimum=1)
    dim: int = setting(4, "features, one of them constant", minimum=2)
    horizon: int = setting(3, "steps per episode", minimum=1)
    gamma: float = setting(1.0, "discount", minimum=0, maximum=1)
    noise: float = setting(0.1, "standard deviation of the rewards' noise", minimum=0)

    def make(self, rng: np.random.Generator) -> MDP:
        shape = (self.horizon, self.states, self.actions)
        scale = 1 / (2 * self.horizon + 1)
        features = np.concatenate([unit_vectors(rng, (*shape, self.dim - 1)), np.ones((*shape, 1))], axis=-1)
        weights = scale * unit_vectors(rng, (self.horizon, self.dim - 1))
        transitions = rng.dirichlet(np.ones(self.states), size=shape)
        q, constant = np.empty(shape), 0.0
        for h in reversed(range(self.horizon)):
            constant = self.gamma * constant + 2 * scale
            q[h] = features[h, ..., :-1] @ weights[h] + constant
        rewards = np.maximum(rewards_of(q, transitions, self.gamma), 0.0)  # rounding can leave -1e-17
        return MDP("linear-q", features, rewards, transitions, uniform(self.states), self.gamma, self.noise)


@dataclass(frozen=True)
class GaussianQ:
    """Linear Q* with weights from a Gaussian prior: the mean regret over instances is Theorem 1's Bayesian regret.

    omega*_h ~ N(prior_mean, prior_std^2 I), independently at each step. Features lie in the simplex, so that Q* is a
    mean of weights; rewards follow as in linear-q, and may be negative. LinPSRL has this prior with the same prior_mean
    and prior_var = prior_std^2.
    """

    states: int = setting(8, "states", minimum=1)
    actions: int = setting(3, "actions", minimum=1)
    dim: int = setting(4, "features", minimum=1)
    horizon: int = setting(1, "steps per episode", minimum=1)
    prior_mean: float = setting(0.5, "mean of each weight", minimum=0, maximum=1)
    prior_std: float = setting(0.1, "standard deviation of each weight; V* must stay in [0, 1]", minimum=0, maximum=0.1)
    noise: float = setting(0.1, "standard deviation of the rewards' noise", minimum=0)

    def make(self, rng: np.random.Generator) -> MDP:
        shape = (self.horizon, self.states, self.actions)
        features = rng.dirichlet(np.full(self.dim, 0.5), size=shape)
        weights = self.prior_mean + self.prior_std * rng.standard_normal((self.horizon, self.dim))
        transitions = rng.dirichlet(np.ones(self.states), size=shape)
        rewards = rewards_of((features @ weights[:, None, :, None])[..., 0], transitions, gamma=1.0)
        start = uniform(self.states)
        name, noise = "gaussian-q", self.noise
        return MDP(name, features, rewards, transitions, start, reward_noise=noise, reward_range=(-1.0, 1.0))


@dataclass(frozen=True)
class LinearMDP:
    """A linear MDP (Jin et al. 2020): P_h = phi . mu_h and r_h = phi . eta_h, with phi in the simplex.

    Then every policy's Q-function is linear, omega_h = eta_h + gamma mu_h V_{h+1}, as LSVI-UCB assumes.
    """

    states: int = setting(20, "states", minimum=1)
    actions: int = setting(3, "actions", minimum=1)
    dim: int = setting(4, "features", minimum=1)
    horizon: int = setting(3, "steps per episode", minimum=1)
    gamma: float = setting(1.0, "discount", minimum=0, maximum=1)
    noise: float = setting(0.1, "standard deviation of the rewards' noise", minimum=0)

    def make(self, rng: np.random.Generator) -> MDP:
        features = rng.dirichlet(np.full(self.dim, 0.5), size=(self.horizon, self.states, self.actions))
        measures = rng.dirichlet(np.full(self.states, 0.1), size=(self.horizon, self.dim))
        reward_weights = rng.uniform(0, 1 / self.horizon, size=(self.horizon, self.dim))
        rewards = (features @ reward_weights[:, None, :, None])[..., 0]
        transitions = features @ measures[:, None]
        return MDP("linear-mdp", features, rewards, transitions, uniform(self.states), self.gamma, self.noise)


@dataclass(frozen=True)
class Bandit:
    """A linear bandit (H = 1), contextual if it has several states. Here the paper's algorithms are well known.

    Arms are unit vectors in the half-sphere around omega*, so that Q* lies in [0, 1]; |omega*| = 1.
    """

    actions: int = setting(10, "arms", minimum=1)
    dim: int = setting(4, "features", minimum=1)
    states: int = setting(1, "contexts; one is drawn in every round", minimum=1)
    noise: float = setting(0.1, "standard deviation of the rewards' noise", minimum=0)

    def make(self, rng: np.random.Generator) -> MDP:
        omega = unit_vectors(rng, (self.dim,))
        arms = unit_vectors(rng, (1, self.states, self.actions, self.dim))
        arms *= np.where(arms @ omega < 0, -1.0, 1.0)[..., None]
        rewards = np.minimum(arms @ omega, 1.0)
        return MDP("bandit", arms, rewards, nowhere_else(rewards), uniform(self.states), reward_noise=self.noise)


@dataclass(frozen=True)
class RiverSwim:
    """Swim against the current: a small reward at the left end, a large one at the right (Strehl and Littman 2008)."""

    states: int = setting(6, "positions in the river", minimum=2)
    horizon: int = setting(20, "steps per episode", minimum=1)
    noise: float = setting(0.0, "standard deviation of the rewards' noise", minimum=0)

    def make(self, rng: np.random.Generator) -> MDP:
        last = self.states - 1
        move = np.zeros((self.states, 2, self.states))
        for x in range(self.states):
            move[x, 0, max(x - 1, 0)] = 1.0
            for step, probability in ((-1, 0.05), (0, 0.6), (1, 0.35)):
                move[x, 1, min(max(x + step, 0), last)] += probability
        reward = np.zeros((self.states, 2))
        reward[0, 0], reward[last, 1] = 0.005, 1.0
        start = np.eye(self.states)[0]
        stages = (self.horizon, 1, 1)
        rewards = np.tile(reward / self.horizon, stages)
        transitions = np.tile(move, (*stages, 1))
        return MDP("river-swim", one_hot(rewards), rewards, transitions, start, reward_noise=self.noise)


@dataclass(frozen=True)
class DeepSea:
    """bsuite's DeepSea (Osband et al. 2019), deterministic: one path in 2^N pays, and every step on it costs.

    The row is the step h, so the column is the state. As in ``bdqn.envs.DeepSea``, ``mapping`` determines which action
    means right in each cell.
    """

    size: int = setting(10, "N: rows and columns", minimum=2)
    mapping: int = setting(0, "bsuite's mapping seed", minimum=0)

    def make(self, rng: np.random.Generator) -> MDP:
        last = self.size - 1
        right = np.random.RandomState(self.mapping).binomial(1, 0.5, (self.size, self.size))
        rewards = np.zeros((self.size, self.size, 2))
        transitions = np.zeros((self.size, self.size, 2, self.size))
        for row, column in np.ndindex(self.size, self.size):
            action = right[row, column]
            transitions[row, column, action, min(column + 1, last)] = 1.0
            transitions[row, column, 1 - action, max(column - 1, 0)] = 1.0
            rewards[row, column, action] = -0.01 / self.size
        rewards[last, last, right[last, last]] += 1.0
        start = np.eye(self.size)[0]
        return MDP("deep-sea", one_hot(rewards), rewards, transitions, start, reward_range=(-0.01, 1.0))


@dataclass(frozen=True)
class CombinationLock:
    """One of A actions is right at each of H steps, and one mistake fails. Random actions succeed once in A^H."""

    horizon: int = setting(6, "numbers to enter", minimum=1)
    actions: int = setting(3, "numbers to choose from", minimum=1)
    noise: float = setting(0.0, "standard deviation of the rewards' noise", minimum=0)

    def make(self, rng: np.random.Generator) -> MDP:
        code = rng.integers(self.actions, size=self.horizon)
        rewards = np.zeros((self.horizon, 2, self.actions))
        rewards[-1, 0, code[-1]] = 1.0
        transitions = np.zeros((*rewards.shape, 2))
        transitions[..., 1] = 1.0  # state 1: locked out
        transitions[np.arange(self.horizon), 0, code] = [1.0, 0.0]
        start = np.array([1.0, 0.0])
        return MDP("combination-lock", one_hot(rewards), rewards, transitions, start, reward_noise=self.noise)


@dataclass(frozen=True)
class RandomTabular:
    """A Garnet MDP: random rewards, and a few random successors of each state and action."""

    states: int = setting(5, "states", minimum=1)
    actions: int = setting(2, "actions", minimum=1)
    horizon: int = setting(3, "steps per episode", minimum=1)
    branching: int = setting(2, "successors of a state and action, at most the number of states", minimum=1)
    noise: float = setting(0.1, "standard deviation of the rewards' noise", minimum=0)

    def make(self, rng: np.random.Generator) -> MDP:
        shape = (self.horizon, self.states, self.actions)
        rewards = rng.uniform(0, 1 / self.horizon, shape)
        transitions = np.zeros((*shape, self.states))
        branching = min(self.branching, self.states)
        for index in np.ndindex(shape):
            successors = rng.choice(self.states, branching, replace=False)
            transitions[index][successors] = rng.dirichlet(np.ones(branching))
        start = uniform(self.states)
        return MDP("random-tabular", one_hot(rewards), rewards, transitions, start, reward_noise=self.noise)


@dataclass(frozen=True)
class Coverage:
    """Two steps, one state each: the second action of the second step is slightly better than the first.

    An agent that never tries it has rho^2 = t / lambda: finite rho is a property of the data, not of Q*.
    """

    gap: float = setting(0.1, "by how much the second action is better", minimum=0, maximum=0.5)
    noise: float = setting(0.1, "standard deviation of the rewards' noise", minimum=0)

    def make(self, rng: np.random.Generator) -> MDP:
        rewards = np.zeros((2, 1, 2))
        rewards[1, 0] = 0.5, 0.5 + self.gap
        transitions = np.ones((2, 1, 2, 1))
        return MDP("coverage", one_hot(rewards), rewards, transitions, uniform(1), reward_noise=self.noise)


FAMILIES: dict[str, type[Family]] = {
    "linear-q": LinearQ,
    "gaussian-q": GaussianQ,
    "linear-mdp": LinearMDP,
    "bandit": Bandit,
    "river-swim": RiverSwim,
    "deep-sea": DeepSea,
    "combination-lock": CombinationLock,
    "random-tabular": RandomTabular,
    "coverage": Coverage,
}


def instances(family: Family, count: int, first: int = 0) -> Replicas:
    """Random problems of one family, side by side; instance i has seed ``first`` + i."""
    return Replicas.of([family.make(np.random.default_rng(first + i)) for i in range(count)])


def unit_vectors(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Uniform random directions along the last axis."""
    vectors = rng.standard_normal(shape)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def rewards_of(q: Array, transitions: Array, gamma: float) -> Array:
    """The rewards that make ``q`` optimal: r_h = Q_h - gamma E V_{h+1}. (H, S, A)"""
    ahead = np.concatenate([q[1:].max(-1), np.zeros((1, q.shape[1]))])  # (H, S)
    return np.stack([q_h - gamma * p_h @ value for q_h, p_h, value in zip(q, transitions, ahead, strict=True)])


def uniform(states: int) -> Array:
    """The uniform distribution over states."""
    return np.full(states, 1 / states)


def one_hot(rewards: Array) -> Array:
    """One feature per state and action, d = S A: every Q-function is linear in them. (H, S, A, S A)"""
    horizon, states, actions = rewards.shape
    table = np.eye(states * actions).reshape(states, actions, states * actions)
    return np.tile(table, (horizon, 1, 1, 1))


def nowhere_else(rewards: Array) -> Array:
    """Transitions after the last step, which do not matter."""
    horizon, states, actions = rewards.shape
    return np.full((horizon, states, actions, states), 1 / states)
