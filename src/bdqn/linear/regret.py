"""Regret, measured in three ways, and its growth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bdqn.linear.agents import Plan
from bdqn.linear.confidence import ConfidenceSet
from bdqn.linear.mdps import Array, Replicas, policy_value
from bdqn.linear.statistics import Episodes


def exact_regret(replicas: Replicas, policy: Array) -> Array:
    """E_{x ~ P_0} [V*(x) - V^pi(x)] of one episode, by dynamic programming. (R,)"""
    value = policy_value(policy, replicas.rewards, replicas.transitions, replicas.gamma)
    return np.asarray((replicas.start * (replicas.q_star[:, 0].max(-1) - value)).sum(-1))


def trajectory_regret(replicas: Replicas, played: Episodes) -> Array:
    """sum_h gamma^{h-1} (V*_h(x_h) - Q*_h(x_h, a_h)) of one episode. (R,)

    By the performance-difference lemma its expectation is the exact regret; it costs O(H).
    """
    rows, steps = np.ogrid[: len(replicas), : played.states.shape[1]]
    q = replicas.q_star[rows, steps, played.states]  # (R, H, A)
    taken = np.take_along_axis(q, played.actions[..., None], axis=-1)[..., 0]
    return np.asarray((q.max(-1) - taken) @ replicas.known.discounts)


def optimistic(replicas: Replicas, plan: Plan) -> Array:
    """The probability that an episode starts where its planned value is at least V*. (R,)"""
    above = plan.q[:, 0].max(-1) >= replicas.q_star[:, 0].max(-1)
    return np.asarray((replicas.start * above).sum(-1))


def certificate(sets: Sequence[ConfidenceSet], played: Episodes, gamma: float) -> Array:
    """sum_h gamma^{h-1} min(2 theta^h |phi_t^h|_{chi_bar^-1}, 1) of one episode. (R,)

    As long as the sets contain omega*, it bounds the trajectory regret of an optimistic agent, step by step. It is the
    proof of Theorem 2 before its bounds are simplified, and the agent can compute it while it plays.
    """
    rows = np.arange(len(played.states))
    total = np.zeros(len(rows))
    for h, confidence_set in enumerate(sets):
        width = confidence_set.width[rows, played.states[:, h], played.actions[:, h]]
        total += gamma**h * np.minimum(2 * confidence_set.theta * width, 1.0)
    return total


def growth_exponent(episodes: Array, cumulative: Array) -> Array:
    """Slope of log regret in log T, by least squares over these points. (...)

    1 means no learning, and 1/2 is the rate of the theorems. NaN if regret is zero throughout.
    """
    x = np.log(episodes) - np.log(episodes).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((np.log(cumulative) @ x) / (x @ x))
