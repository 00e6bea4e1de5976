"""Who explores out of the box: normalised areas, where 0 is a random policy and 1 the optimum; and what that costs.

Reads the CSV files of results/ only: python experiments/exploration_suite/analysis.py
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from problems import bounds

from bdqn.report import stats
from bdqn.report.compare import Comparison, read_results
from bdqn.report.experiment import Page, short
from bdqn.report.figures import scores_figure

LEVEL = 0.9
DEFAULT, PLAIN, MODEST = "bdqn-explore", "bdqn", "modest"
SPARSE = {  # name of a figure: its title, and the files with its runs
    "sparse": ("Problems on which the method was found", ["sparse.toml"]),
    "held_out": ("Held-out problems", ["held_out.toml", "held_out_rivals.toml"]),
    "held_out_minigrid": ("Held-out problems of MiniGrid", ["held_out_minigrid.toml"]),
}
Areas = dict[int, float]  # by seed
Runs = tuple[str, Sequence[Comparison]]  # a group, and where its runs are


def normalised(found: Comparison, group: str, env: str) -> Areas:
    """The areas of a group's runs, between chance and the optimum."""
    random, optimum = bounds(env)
    return {run.seed: (run.area - random) / (optimum - random) for run in found.of(group, env)}


def interval(page: Page, areas: Areas) -> tuple[float, float, float]:
    """The mean over seeds, and the ends of its interval."""
    return interval_over(page, {"": areas})


def interval_over(page: Page, problems: dict[str, Areas]) -> tuple[float, float, float]:
    """The mean over problems of the means over seeds, and the ends of its interval."""
    scores = stats.by_environment(problems)
    ends = stats.bootstrap(stats.mean, scores, page.rng, level=LEVEL)
    return float(stats.mean(scores)), ends.low, ends.high


def text(points: tuple[float, float, float]) -> str:
    mean, low, high = points
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def say_sparse(page: Page, name: str, files: list[str]) -> None:
    """Normalised areas with a figure, rivals that are significantly better than the default, and first episodes."""
    found = Comparison(tuple(run for file in files for run in page.read(file).found.results), ())
    points: dict[str, dict[str, tuple[float, float, float]]] = {group: {} for group in found.groups}
    better: list[str] = []
    for env in found.envs:
        own = normalised(found, DEFAULT, env)
        for group in found.groups:
            areas = normalised(found, group, env)
            if len(areas) < 2:
                continue
            points[group][short(env)] = interval(page, areas)
            paired = {seed: areas[seed] - own[seed] for seed in areas if seed in own}
            if group != DEFAULT and len(paired) > 1 and interval(page, paired)[1] > 0:
                better.append(f"{group} on {env}: {text(interval(page, paired))}")
    envs = [short(env) for env in found.envs]
    lines = [["environment", *found.groups]]
    lines += [[env, *(text(points[g][env]) if env in points[g] else "-" for g in found.groups)] for env in envs]
    complete = [env for env in envs if all(env in points[g] for g in found.groups)]
    if complete:
        means = (np.mean([points[g][env][0] for env in complete]) for g in found.groups)
        lines.append([f"mean of the {len(complete)} that all agents have", *(f"{mean:.2f}" for mean in means)])
    page.say(f"Normalised area under the learning curve: means over seeds with {LEVEL:.0%} bootstrap intervals.")
    page.cells(lines)
    rivals = "; ".join(better) or "none"
    page.points([f"Agents whose area exceeds that of {DEFAULT}, paired by seed, with an interval above 0: {rivals}."])
    if any(points.values()):
        figure = scores_figure(points, "normalised area (0: random policy, 1: optimum)")
        page.figure(f"{name}.png", figure)
    page.episodes("episodes.csv", found.envs, found.groups)


def say_ablation(page: Page) -> None:
    """Normalised areas with one part switched off, and how much less that is than with all of them."""
    found = page.read("ablation.toml").found
    lines = [["variant", *map(short, found.envs)]]
    for group in found.groups:
        cells = []
        for env in found.envs:
            whole, areas = normalised(found, DEFAULT, env), normalised(found, group, env)
            lost = {seed: areas[seed] - whole[seed] for seed in areas if seed in whole}
            if len(lost) < 2:
                cells.append("-")
            elif group == DEFAULT:
                cells.append(text(interval(page, areas)))
            else:
                cells.append(f"{np.mean(list(areas.values())):.2f}; difference {text(interval(page, lost))}")
        lines.append([group, *cells])
    if len(lines) > 1:
        page.say(f"Normalised area with one part switched off, and the difference, paired by seed ({LEVEL:.0%}).")
        page.cells(lines)


def say_dense(page: Page) -> None:
    """The default's area over plain Bayesian DQN's."""
    found = page.read("dense_explore.toml").found
    parts = [found, *(page.read(file).found for file in ("dense_more.toml", "dense_asterix.toml", "dense.toml"))]
    parts.append(read_results(page.folder.parent / "deep_cost" / "results"))
    say_ratios(page, found.envs, (DEFAULT, parts), (PLAIN, parts))


def say_boldness(page: Page) -> None:
    """The default with and without bold draws: normalised areas where rewards are sparse, ratios where they are not."""
    modest, *whole = (page.read(file).found for file in ("boldness.toml", "sparse.toml", "held_out.toml"))
    lines = [["environment", "with bold draws", "without", "difference"]]
    points: dict[str, dict[str, tuple[float, float, float]]] = {"with bold draws": {}, "without": {}}
    for env in modest.envs:
        with_them = {seed: area for found in whole for seed, area in normalised(found, DEFAULT, env).items()}
        without = normalised(modest, MODEST, env)
        both = sorted(set(with_them) & set(without))
        if len(both) > 1:
            lost = {seed: with_them[seed] - without[seed] for seed in both}
            columns = ({seed: areas[seed] for seed in both} for areas in (with_them, without, lost))
            means = [interval(page, areas) for areas in columns]
            points["with bold draws"][short(env)], points["without"][short(env)], _ = means
            lines.append([short(env), *map(text, means)])
    if len(lines) > 1:
        page.say(f"Normalised area, paired by seed ({LEVEL:.0%}).")
        page.cells(lines)
        page.figure("boldness.png", scores_figure(points, "normalised area (0: random policy, 1: optimum)"))
    modest, bold = (page.read(file).found for file in ("boldness_dense.toml", "dense_explore.toml"))
    say_ratios(page, modest.envs, (DEFAULT, [bold]), (MODEST, [modest]))


def say_ratios(page: Page, envs: Sequence[str], ours: Runs, theirs: Runs) -> None:
    """Areas of one group over those of another, paired by seed."""
    lines = [["environment", "seeds", f"`{theirs[0]}`", f"`{ours[0]}`", "ratio"]]
    ratios: dict[str, Areas] = {}
    for env in envs:
        floor = -500.0 if env == "Acrobot-v1" else 0.0  # returns there are negative: counted from the worst
        own, other = (
            {run.seed: run.area - floor for part in parts for run in part.of(group, env)}
            for group, parts in (ours, theirs)
        )
        both = sorted(set(own) & set(other))
        if len(both) > 1:
            ratios[env] = {seed: own[seed] / other[seed] for seed in both}
            cells = ({seed: areas[seed] for seed in both} for areas in (other, own, ratios[env]))
            lines.append([env, str(len(both)), *(text(interval(page, areas)) for areas in cells)])
    if ratios:
        page.say("Area under the learning curve, paired by seed (Acrobot: counted from -500, the worst return).")
        page.cells(lines)
        page.points([f"Mean of the ratios over these {len(ratios)} problems: {text(interval_over(page, ratios))}."])


page = Page(__file__)
page.say("# Exploration suite")
for name, (title, files) in SPARSE.items():
    page.say(f"## {title}")
    say_sparse(page, name, files)
page.say("## One part switched off")
say_ablation(page)
page.say("## Dense problems")
say_dense(page)
page.say("## With and without bold draws")
say_boldness(page)
page.say("## Space Invaders: one part switched off, or wider")
page.compare(page.read("space_invaders.toml").found, PLAIN, LEVEL)
page.write()
