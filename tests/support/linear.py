"""What several tests of the linear agents do alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bdqn.linear import MDP, LinUCB, Replicas, play
from bdqn.linear.agents import LinearAgent
from bdqn.linear.recipes import Settings

Flags = NDArray[np.bool_]


def the_same(mdp: MDP, count: int) -> Replicas:
    return Replicas.of([mdp] * count)


def linear_agent(settings: Settings, replicas: Replicas) -> LinearAgent:
    agent = settings.make(replicas.known)
    assert isinstance(agent, LinearAgent)
    return agent


def coverage(replicas: Replicas, settings: LinUCB, episodes: int) -> Flags:
    """Whether all sets of an episode hold omega*. (R, T)"""
    agent = settings.make(replicas.known)
    covered = np.ones((len(replicas), episodes), bool)
    for t, played in zip(range(episodes), play(replicas, agent, range(len(replicas))), strict=False):
        for h, confidence_set in enumerate(played.plan.sets):
            covered[:, t] &= confidence_set.contains(replicas.omega_star[:, h])
    return covered
