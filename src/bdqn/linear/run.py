"""Play episodes of many replicas in parallel, and measure their regret."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bdqn.linear.agents import Agent, Plan
from bdqn.linear.draws import Draws, choose, choose_cumulative
from bdqn.linear.mdps import Array, Replicas
from bdqn.linear.regret import certificate, exact_regret, trajectory_regret
from bdqn.linear.statistics import Episodes


class Played(NamedTuple):
    """One episode of all replicas: the plan and what happened."""

    plan: Plan
    episodes: Episodes


@dataclass(frozen=True)
class Curves:
    """Regret, episode by episode; sum along the last axis for Reg_T."""

    exact: Array  # (R, T)
    trajectory: Array  # (R, T)
    returns: Array  # (R, T)
    certificate: Array | None  # (R, T), of agents that keep confidence sets


def play(replicas: Replicas, agent: Agent, seeds: Sequence[int]) -> Iterator[Played]:
    """Play episodes without end. The randomness of a replica depends only on its seed."""
    if len(seeds) != len(replicas):
        raise ValueError(f"seeds must have one entry for each of {len(replicas)} replicas, not {len(seeds)}.")
    nature, own = Draws(seeds, "environment"), Draws(seeds, "agent")
    cumulative = np.cumsum(replicas.transitions, axis=-1)
    noise = np.array([mdp.reward_noise for mdp in replicas.mdps])[:, None]
    rows = np.arange(len(replicas))
    horizon = replicas.rewards.shape[1]
    while True:
        plan = agent.plan(own)
        to_act, to_move = own.uniform(horizon), nature.uniform(horizon)
        noises = noise * nature.normal(horizon)
        states, actions = np.empty((2, len(replicas), horizon), np.int64)
        state = choose(replicas.start, to_move[:, -1])  # the last step has no successor, so its number is free
        for h in range(horizon):
            states[:, h] = state
            actions[:, h] = action = choose(plan.policy[rows, h, state], to_act[:, h])
            state = choose_cumulative(cumulative[rows, h, state, action], to_move[:, h])
        steps = np.arange(horizon)
        rewards = replicas.rewards[rows[:, None], steps, states, actions] + noises
        episodes = Episodes(states, actions, rewards)
        agent.observe(episodes)
        yield Played(plan, episodes)


def run(
    replicas: Replicas,
    agent: Agent,
    episodes: int,
    seeds: Sequence[int],
    progress: Callable[[int, float], None] = lambda episode, mean_return: None,
) -> Curves:
    """Play T episodes of every replica; ``progress`` receives the number and mean return of each episode."""
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}.")
    exact, trajectory, returns, certified = np.empty((4, len(replicas), episodes))
    has_sets = False
    for t, (plan, played) in zip(range(episodes), play(replicas, agent, seeds), strict=False):
        exact[:, t] = exact_regret(replicas, plan.policy)
        trajectory[:, t] = trajectory_regret(replicas, played)
        returns[:, t] = played.rewards @ replicas.known.discounts
        has_sets = bool(plan.sets)
        if has_sets:
            certified[:, t] = certificate(plan.sets, played, replicas.gamma)
        progress(t + 1, float(returns[:, t].mean()))
    return Curves(exact, trajectory, returns, certified if has_sets else None)
