"""Run the studies of this folder, and write a table of each. Interrupted, run it again: what is there is not run again.

python experiments/linear_regret/run.py --scale quick
"""

from __future__ import annotations

import argparse
import csv
import io
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bdqn.config.settings import nearest
from bdqn.linear import LinPSRL, LinUCB, LSVIEpsilon, PriorScaleWarning, Replicas, play, run
from bdqn.linear.bounds import Constants, theorem_1, theorem_2
from bdqn.linear.families import Bandit, DeepSea, Family, LinearMDP, LinearQ, RandomTabular
from bdqn.linear.recipes import Settings
from bdqn.report.regret import grid_of, growth
from bdqn.storage.atomic import make_directory, write_file
from bdqn.storage.toml import toml_text

OUT = Path("out/linear_regret")
MARK = "scale.toml"  # beside the tables: how much was run for them

Row = Sequence[Any]
Study = tuple[tuple[str, ...], Iterator[Row]]  # columns and rows


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    name: str
    seeds: int
    instances: int  # of coverage
    episodes: Mapping[str, int]  # of each study; of deep-sea: for each of its N rows


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
QUICK = Scale("quick", seeds=5, instances=20, episodes={study: count // 2 for study, count in FULL.episodes.items()})
SCALES = {scale.name: scale for scale in (FULL, QUICK)}


def instances(family: Family, count: int) -> Replicas:
    """One random problem per seed."""
    return Replicas.of([family.make(np.random.default_rng(seed)) for seed in range(count)])


def interval(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float, float]:
    """Mean over seeds and a 95 % bootstrap interval."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(len(values), size=(2000, len(values)))].mean(1)
    return (float(values.mean()), *map(float, np.percentile(means, [2.5, 97.5])))


LEARNERS: dict[str, Settings] = {
    "linpsrl": LinPSRL(),
    "linpsrl:target=mean": LinPSRL(target="mean"),
    "linucb": LinUCB(),
    "linucb:radius=data": LinUCB(radius="data"),
    "linucb:scale=0.1": LinUCB(scale=0.1),
    "lsvi-epsilon": LSVIEpsilon(),
}


def regret_in_t(scale: Scale) -> Study:
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


def regret_in_d(scale: Scale) -> Study:
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


def regret_in_h(scale: Scale) -> Study:
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


def coverage(scale: Scale) -> Study:
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


def prior_scale(scale: Scale) -> Study:
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
                agent = LinPSRL(prior_var=factor * default).make(replicas.known)
                exact = run(replicas, agent, episodes, seeds).exact
                yield name, factor, *interval(exact.sum(1)), exact[:, -100:].mean()

    return columns, rows()


def deep_sea(scale: Scale) -> Study:
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


def widths(scale: Scale) -> Study:
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


STUDIES: dict[str, Callable[[Scale], Study]] = {
    "regret-in-t": regret_in_t,
    "regret-in-d": regret_in_d,
    "regret-in-h": regret_in_h,
    "coverage": coverage,
    "prior-scale": prior_scale,
    "deep-sea": deep_sea,
    "widths": widths,
}


def table_of(study: Study) -> str:
    """A study as CSV; this is what runs it."""
    columns, rows = study
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([f"{cell:.5g}" if isinstance(cell, float) else cell for cell in row])
    return text.getvalue()


def claim(out: Path, scale: Scale) -> None:
    """Make a directory this scale's: tables of two scales in one would be taken for one another."""
    mark = out / MARK
    ours = asdict(scale)
    if mark.exists() and tomllib.loads(mark.read_text(encoding="utf-8")) != ours:
        raise SystemExit(f"{out} holds other results than those of scale {scale.name} ({mark}): give another --out.")
    make_directory(out)
    write_file(mark, toml_text(ours).encode())


def run_studies(names: Sequence[str], scale: Scale, out: Path) -> None:
    """Run those that have no table yet. A table is whole or not there, so an interrupted study begins anew."""
    claim(out, scale)
    warnings.simplefilter("ignore", PriorScaleWarning)  # narrow priors are what one study is about
    for name in names:
        path = out / f"{name}.csv"
        if path.exists():
            print(f"{path} is there already.", flush=True)
            continue
        began = time.process_time()
        write_file(path, table_of(STUDIES[name](scale)).encode())
        print(f"{path}: {time.process_time() - began:.0f} s of processor time", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run studies of linear agents; those that are done are not run again.")
    parser.add_argument("studies", metavar="STUDY", nargs="*", help=f"{', '.join(STUDIES)} [all]")
    parser.add_argument("--scale", choices=SCALES, default=FULL.name, help="how much is run [%(default)s]")
    parser.add_argument("--out", type=Path, help=f"where the tables go [{OUT / 'SCALE'}]")
    args = parser.parse_args()
    for name in args.studies:
        if name not in STUDIES:
            parser.error(f"there is no study {name!r}; {nearest(name, STUDIES)}")
    run_studies(args.studies or list(STUDIES), SCALES[args.scale], args.out or OUT / args.scale)


if __name__ == "__main__":
    main()
