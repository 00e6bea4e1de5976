"""Run the studies of this folder, and write a table of each. Interrupted, run it again: what is there is not run again.

python experiments/linear_exploration/run.py --scale quick
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bdqn.linear import PSRL, UCBVI, UCRL2, LinPSRL, LinUCB, LSVIEpsilon, Replicas, play, run
from bdqn.linear.bounds import Constants, theorem_1
from bdqn.linear.families import (
    Bandit,
    CombinationLock,
    DeepSea,
    Family,
    GaussianQ,
    LinearQ,
    RandomTabular,
    RiverSwim,
    instances,
)
from bdqn.linear.mdps import Array
from bdqn.linear.recipes import Settings
from bdqn.linear.regret import exact_regret, optimistic
from bdqn.linear.self_normalised import SelfNormalised
from bdqn.report.regret import grid_of
from bdqn.report.studies import Row, Scale, Study, Table, interval, main

OUT = Path("out/linear_exploration")
FULL = Scale(
    "full",
    seeds=20,
    instances=500,
    episodes={"boldness": 1_000, "rivals": 4_000, "bayesian-regret": 200, "optimism": 1_000, "lemmas": 300},
)
SCALES = (FULL, FULL.quick())

INFLATIONS = ("0.03", "0.1", "0.3", "1", "3", "10")
MIXTURES = ("0.1/10", "0.1/1/10", "/".join(INFLATIONS))
BOLD: dict[str, Settings] = {
    **{f"linpsrl:inflation={text}": LinPSRL(inflation=text) for text in (*INFLATIONS, *MIXTURES)},
    "linucb:radius=data": LinUCB(radius="data"),
    "linucb:radius=data,scale=0.1": LinUCB(radius="data", scale=0.1),
}
CHAINS: dict[str, Family] = {
    "river-swim": RiverSwim(),
    "combination-lock:horizon=8": CombinationLock(horizon=8),
    "deep-sea": DeepSea(),
    "linear-q": LinearQ(),
}


def boldness(scale: Scale) -> Table:
    """Chains, and a problem without any: curves of LinPSRL at fixed inflations, with mixtures, and of LinUCB."""
    columns = ("problem", "agent", "episode", "regret", "low", "high", "late_regret_per_episode")
    episodes, seeds = scale.episodes["boldness"], range(scale.seeds)

    def rows() -> Iterator[Row]:
        for problem, family in CHAINS.items():
            replicas = instances(family, scale.seeds)
            for name, settings in BOLD.items():
                exact = run(replicas, settings.make(replicas.known), episodes, seeds).exact
                regret, late = exact.cumsum(1), float(exact[:, -max(1, episodes // 10) :].mean())
                for t in grid_of(episodes, 40):
                    yield problem, name, int(t), *interval(regret[:, t - 1]), late

    return columns, rows()


RIVALS: dict[str, Settings] = {
    "ucbvi": UCBVI(),
    "ucbvi:scale=0.1": UCBVI(scale=0.1),
    "ucrl2": UCRL2(),
    "ucrl2:scale=0.1": UCRL2(scale=0.1),
    "psrl": PSRL(),
    "lsvi-epsilon": LSVIEpsilon(),
}


def rivals(scale: Scale) -> Table:
    """RiverSwim: curves of tabular optimism, of sampling and of epsilon-greedy, and how often plans were optimistic."""
    columns = ("agent", "episode", "regret", "low", "high", "optimistic")
    episodes, seeds = scale.episodes["rivals"], range(scale.seeds)

    def rows() -> Iterator[Row]:
        replicas = instances(RiverSwim(), scale.seeds)
        for name, settings in RIVALS.items():
            exact, planned = regret_and_optimism(replicas, settings, episodes, seeds)
            regret = exact.cumsum(1)
            for t in grid_of(episodes, 60):
                yield name, int(t), *interval(regret[:, t - 1]), float(planned.mean())

    return columns, rows()


def regret_and_optimism(
    replicas: Replicas, settings: Settings, episodes: int, seeds: Sequence[int]
) -> tuple[Array, Array]:
    """The exact regret of every episode, and the share of starts whose planned value was at least V*. (R, T) each"""
    exact, above = np.empty((2, len(replicas), episodes))
    agent = settings.make(replicas.known)
    for t, (plan, _) in zip(range(episodes), play(replicas, agent, seeds), strict=False):
        exact[:, t], above[:, t] = exact_regret(replicas, plan.policy), optimistic(replicas, plan)
    return exact, above


FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)
PROBLEM = GaussianQ()


def beliefs(sigma: float) -> Iterator[tuple[str, float, LinPSRL]]:
    """LinPSRL with the prior that the problem is drawn from, and with one number of it changed."""
    right = LinPSRL(prior_mean=PROBLEM.prior_mean, prior_var=PROBLEM.prior_std**2, noise_std=sigma)
    for factor in FACTORS:
        yield "prior variance", factor, replace(right, prior_var=factor * PROBLEM.prior_std**2)
        yield "noise variance", factor, replace(right, noise_std=np.sqrt(factor) * sigma)
    for shift in (-4.0, -2.0, 0.0, 2.0, 4.0):
        shifted = PROBLEM.prior_mean + shift * PROBLEM.prior_std
        yield "prior mean, in standard deviations", shift, replace(right, prior_mean=shifted)
    yield "inflation sqrt(d)", np.sqrt(PROBLEM.dim), replace(right, inflation="sqrt-d")


def bayesian_regret(scale: Scale) -> Table:
    """gaussian-q, H = 1 and 3: mean regret over instances drawn from the prior, with the prior right and wrong.

    The bound is Theorem 1's, for H = 1 and the right prior.
    """
    columns = ("horizon", "changed", "factor", "regret", "low", "high", "bound")
    episodes, count = scale.episodes["bayesian-regret"], scale.instances

    def rows() -> Iterator[Row]:
        for horizon in (1, 3):
            replicas = instances(replace(PROBLEM, horizon=horizon), count)
            for changed, factor, settings in beliefs(replicas.known.sigma):
                agent = settings.make(replicas.known)
                regret = run(replicas, agent, episodes, range(count)).exact.sum(1)
                bound = ""
                if horizon == 1 and (changed, factor) == ("prior variance", 1.0):
                    bound = float(theorem_1(Constants.of(replicas.known, agent.prior.ridge), np.zeros(1), episodes))
                yield horizon, changed, factor, *interval(regret), bound

    return columns, rows()


def optimism(scale: Scale) -> Table:
    """Bandits and linear-q: share of draws whose value is at least V*, and regret, by the inflation."""
    columns = ("problem", "inflation", "early", "late", "regret", "low", "high")
    episodes, seeds = scale.episodes["optimism"], range(scale.seeds)
    tenth = max(1, episodes // 10)
    problems: dict[str, Family] = {
        "bandit, d = 4": Bandit(states=20, actions=50),
        "bandit, d = 16": Bandit(states=20, actions=50, dim=16),
        "linear-q, H = 3": LinearQ(),
    }

    def rows() -> Iterator[Row]:
        for problem, family in problems.items():
            replicas = instances(family, scale.seeds)
            for inflation in (0.1, 0.3, 0.5, 1.0, 2.0, 4.0, 8.0):
                settings = LinPSRL(inflation=f"{inflation:g}")
                exact, above = regret_and_optimism(replicas, settings, episodes, seeds)
                shares = float(above[:, :tenth].mean()), float(above[:, -tenth:].mean())
                yield problem, inflation, *shares, *interval(exact.sum(1))

    return columns, rows()


LEVELS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # delta


def lemmas(scale: Scale) -> Table:
    """E M_t(alpha), also stopped where it first reaches 2; and how often the mixture ever exceeds 1 / delta.

    Under LinPSRL, at the first step of each problem. alpha has the length of a weight of standard deviation sigma.
    """
    columns = ("problem", "what", "at", "value", "low", "high")
    episodes, count = scale.episodes["lemmas"], scale.instances
    problems: dict[str, Family] = {
        "bandit": Bandit(states=5),
        "linear-q, H = 2": LinearQ(horizon=2),
        "random-tabular, H = 3": RandomTabular(noise=0.0),
    }

    def rows() -> Iterator[Row]:
        for problem, family in problems.items():
            replicas = instances(family, count)
            process = SelfNormalised(replicas)
            alpha = np.full(replicas.known.dim, 0.3 / np.sqrt(replicas.known.dim))
            plain, mixed = np.empty((2, count, episodes))
            agent = LinPSRL().make(replicas.known)
            for t, (_, played) in zip(range(episodes), play(replicas, agent, range(count)), strict=False):
                process.add(played)
                plain[:, t] = np.exp(process.log_exponential(alpha)[:, 0])
                mixed[:, t] = process.log_mixture(1.0)[:, 0]
            for t in grid_of(min(episodes, 40), 20):
                yield problem, "E M_t", int(t), *interval(plain[:, t - 1])
            first = np.where((plain >= 2).any(1), (plain >= 2).argmax(1), episodes - 1)
            yield problem, "E M at the first t with M_t >= 2", "", *interval(plain[np.arange(count), first])
            for delta in LEVELS:
                yield problem, "ever above 1 / delta", delta, *interval(1.0 * (mixed.max(1) > np.log(1 / delta)))

    return columns, rows()


STUDIES: dict[str, Study] = {
    "boldness": boldness,
    "rivals": rivals,
    "bayesian-regret": bayesian_regret,
    "optimism": optimism,
    "lemmas": lemmas,
}


if __name__ == "__main__":
    main(STUDIES, SCALES, OUT)
