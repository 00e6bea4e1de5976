"""Run the studies of this folder, and write a table of each. Interrupted, run it again: what is there is not run again.

python experiments/linear_regret/run.py --scale quick
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np

from bdqn.linear import LinPSRL, LinUCB, LSVIEpsilon, PriorScaleWarning, Replicas, play, run
from bdqn.linear.bounds import Constants, theorem_1, theorem_2
from bdqn.linear.families import Bandit, DeepSea, Family, LinearMDP, LinearQ, RandomTabular, instances
from bdqn.linear.recipes import Settings
from bdqn.report.regret import grid_of, growth
from bdqn.report.studies import Row, Scale, Study, Table, interval, main

OUT = Path("out/linear_regret")
FULL = Scale(
    "full",
    seeds=20,
    instances=100,
    episodes={
        "regret-in-t": 3_000,
        "regret-in-d": 2_000,
        "regret-in-h": 1_500,
        "coverage": 300,
        "prior-scale": 1_000,
        "deep-sea": 50,
        "widths": 3_000,
    },
)
SCALES = (FULL, FULL.quick())


LEARNERS: dict[str, Settings] = {
    "linpsrl": LinPSRL(),
    "linpsrl:target=mean": LinPSRL(target="mean"),
    "linucb": LinUCB(),
    "linucb:radius=data": LinUCB(radius="data"),
    "linucb:scale=0.1": LinUCB(scale=0.1),
    "lsvi-epsilon": LSVIEpsilon(),
}


def regret_in_t(scale: Scale) -> Table:
    """linear-q, H = 1, 2, 3: curves of regret, certificate and bound."""
    columns = ("horizon", "agent", "episode", "regret", "low", "high", "certificate", "bound")
    episodes, seeds = scale.episodes["regret-in-t"], range(scale.seeds)

    def rows() -> Iterator[Row]:
        for horizon in (1, 2, 3):
            replicas = instances(LinearQ(horizon=horizon), scale.seeds)
            for name, settings in LEARNERS.items():
                agent = settings.make(replicas.known)
                curves = run(replicas, agent, episodes, seeds)
                regret = curves.exact.cumsum(1)
                fitted = growth(np.arange(1, episodes + 1), regret, np.random.default_rng(0))
                yield horizon, name, "exponent", fitted.exponent, fitted.low, fitted.high, "", ""
                for t in grid_of(episodes, 60):
                    certificate = "" if curves.certificate is None else curves.certificate[:, :t].sum(1).mean()
                    bound = ""
                    if name == "linucb":
                        rho = agent.confidence.largest_rho
                        bound = theorem_2(Constants.of(replicas.known, 1.0), rho, int(t), 0.1).mean()
                    elif name == "linpsrl" and horizon == 1:
                        bound = theorem_1(Constants.of(replicas.known, agent.prior.ridge), np.zeros(1), int(t))
                    yield horizon, name, int(t), *interval(regret[:, t - 1]), certificate, bound

    return columns, rows()


def regret_in_d(scale: Scale) -> Table:
    """Contextual bandits: regret and certificate at the end, by the number of features.

    The ridge is small so that its share of the radius, which does not depend on d, does not hide the rest.
    """
    columns = ("dim", "agent", "regret", "low", "high", "certificate")
    episodes, seeds = scale.episodes["regret-in-d"], range(scale.seeds)

    def rows() -> Iterator[Row]:
        for dim in (2, 4, 8, 16):
            replicas = instances(Bandit(dim=dim, actions=50, states=20, noise=0.1), scale.seeds)
            for name, settings in (("linpsrl", LinPSRL()), ("linucb", LinUCB(ridge=1e-3))):
                curves = run(replicas, settings.make(replicas.known), episodes, seeds)
                certificate = "" if curves.certificate is None else curves.certificate.sum(1).mean()
                yield dim, name, *interval(curves.exact.sum(1)), certificate

    return columns, rows()


def regret_in_h(scale: Scale) -> Table:
    """linear-q, regret at the end, by horizon; rho is the largest that was met."""
    columns = ("horizon", "agent", "regret", "low", "high", "certificate", "printed_bound", "corrected_bound", "rho")
    episodes, seeds = scale.episodes["regret-in-h"], range(scale.seeds)

    def rows() -> Iterator[Row]:
        for horizon in range(1, 7):
            replicas = instances(LinearQ(horizon=horizon), scale.seeds)
            for name in ("linpsrl", "linucb", "linucb:scale=0.1"):
                agent = LEARNERS[name].make(replicas.known)
                curves = run(replicas, agent, episodes, seeds)
                extra: Row = ("", "", "", "")
                if name == "linucb":
                    rho, constants = agent.confidence.largest_rho, Constants.of(replicas.known, 1.0)
                    bounds = (theorem_2(constants, rho, episodes, 0.1, v).mean() for v in ("printed", "corrected"))
                    extra = curves.certificate.sum(1).mean(), *bounds, rho[:, 1:].max(initial=0.0)
                yield horizon, name, *interval(curves.exact.sum(1)), *extra

    return columns, rows()


def coverage(scale: Scale) -> Table:
    """delta = 0.1: does omega* ever leave a confidence set?"""
    columns = ("family", "noise", "horizon", "radius", "clip", "instances", "always_covered", "episodes_covered")
    episodes, count = scale.episodes["coverage"], scale.instances

    def rows() -> Iterator[Row]:
        families: dict[str, Callable[..., Family]] = {
            "linear-q": LinearQ,
            "linear-mdp": LinearMDP,
            "random-tabular": RandomTabular,
        }
        radii = ("paper", "theory", "data")
        cases = [("linear-q", *case) for case in product((0.02, 0.1), radii, (True, False))]
        cases += [(family, 0.02, radius, True) for family, radius in product(("linear-mdp", "random-tabular"), radii)]
        for family, noise, radius, clip in cases:
            for horizon in (1, 2, 3, 4):
                replicas = instances(families[family](horizon=horizon, noise=noise), count)
                agent = LinUCB(radius=radius, clip=clip).make(replicas.known)
                covered = np.ones((count, episodes), bool)
                for t, played in zip(range(episodes), play(replicas, agent, range(count)), strict=False):
                    for h, confidence_set in enumerate(played.plan.sets):
                        covered[:, t] &= confidence_set.contains(replicas.omega_star[:, h])
                yield family, noise, horizon, radius, clip, count, covered.all(1).mean(), covered.mean()

    return columns, rows()


def prior_scale(scale: Scale) -> Table:
    """LinPSRL, regret at the end, by its prior variance in units of L_omega^2 / d."""
    columns = ("family", "prior_var_over_default", "regret", "low", "high", "late_regret_per_episode")
    episodes, seeds = scale.episodes["prior-scale"], range(scale.seeds)

    def rows() -> Iterator[Row]:
        families: dict[str, Family] = {
            "random-tabular, H = 1": RandomTabular(actions=5, horizon=1, noise=0.12),
            "random-tabular, H = 2": RandomTabular(horizon=2, noise=0.12),
            "linear-q, H = 2": LinearQ(horizon=2, noise=0.12),
        }
        for name, family in families.items():
            replicas = instances(family, scale.seeds)
            default = replicas.known.weight_norm**2 / replicas.known.dim
            for factor in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
                with warnings.catch_warnings(action="ignore", category=PriorScaleWarning):
                    agent = LinPSRL(prior_var=factor * default).make(replicas.known)
                exact = run(replicas, agent, episodes, seeds).exact
                yield name, factor, *interval(exact.sum(1)), exact[:, -100:].mean()

    return columns, rows()


def deep_sea(scale: Scale) -> Table:
    """Episodes until DeepSea is solved: treasure in 9 of 10 episodes, from then on for 100 episodes."""
    columns = ("size", "episodes", "agent", "seed", "first_treasure", "solved_at", "regret")
    seeds = range(scale.seeds)

    def rows() -> Iterator[Row]:
        rivals: dict[str, Settings] = {"linpsrl": LinPSRL(), "linpsrl:target=mean": LinPSRL(target="mean")}
        rivals |= {f"lsvi-epsilon:epsilon={e}": LSVIEpsilon(epsilon=e) for e in (0.05, 0.1, 0.3, 1.0)}
        two = {name: rivals[name] for name in ("linpsrl", "lsvi-epsilon:epsilon=0.1")}
        for size, agents in ((10, rivals), (20, two)):
            episodes = scale.episodes["deep-sea"] * size
            replicas = Replicas.of([DeepSea(size=size).make(np.random.default_rng(0))] * scale.seeds)
            for name, settings in agents.items():
                curves = run(replicas, settings.make(replicas.known), episodes, seeds)
                treasure = curves.returns > 0.5
                for seed in seeds:
                    window = np.convolve(treasure[seed], np.full(100, 0.01), mode="valid")
                    solved = np.flatnonzero(window >= 0.9 - 1e-9)
                    first = np.flatnonzero(treasure[seed])
                    yield (
                        size, episodes, name, seed,
                        int(first[0]) + 1 if first.size else "",
                        int(solved[0]) + 1 if solved.size else "",
                        curves.exact[seed].sum(),
                    )  # fmt: skip

    return columns, rows()


def widths(scale: Scale) -> Table:
    """linear-q, LinUCB: width |phi| and its product with theta along what is played, mean over seeds."""
    columns = ("horizon", "step", "episode", "width", "radius_times_width")
    episodes, seeds = scale.episodes["widths"], np.arange(scale.seeds)

    def rows() -> Iterator[Row]:
        for horizon in (1, 2, 3):
            replicas = instances(LinearQ(horizon=horizon), scale.seeds)
            agent = LinUCB().make(replicas.known)
            width, scaled = np.empty((2, horizon, episodes))
            for t, (plan, played) in zip(range(episodes), play(replicas, agent, range(scale.seeds)), strict=False):
                for h, confidence_set in enumerate(plan.sets):
                    here = confidence_set.width[seeds, played.states[:, h], played.actions[:, h]]
                    width[h, t], scaled[h, t] = here.mean(), (here * confidence_set.theta).mean()
            for h in range(horizon):
                for t in grid_of(episodes, 60):
                    yield horizon, h + 1, int(t), width[h, t - 1], scaled[h, t - 1]

    return columns, rows()


STUDIES: dict[str, Study] = {
    "regret-in-t": regret_in_t,
    "regret-in-d": regret_in_d,
    "regret-in-h": regret_in_h,
    "coverage": coverage,
    "prior-scale": prior_scale,
    "deep-sea": deep_sea,
    "widths": widths,
}


if __name__ == "__main__":
    main(STUDIES, SCALES, OUT)
