"""Who explores out of the box: normalised areas, where 0 is a random policy and 1 the optimum; and what that costs.

Reads the CSV files of results/ only: python experiments/exploration_suite/analysis.py
"""

from __future__ import annotations

import numpy as np
from problems import bounds

from bdqn.report import stats
from bdqn.report.collect import read_rows
from bdqn.report.compare import Comparison, read_results
from bdqn.report.experiment import Page
from bdqn.report.figures import scores_figure

LEVEL = 0.9
DEFAULT, PLAIN = "bdqn-explore", "bdqn"
SPARSE = {  # name of a figure: its title, and the files with its runs
    "sparse": ("Problems on which the method was found", ["sparse.toml"]),
    "held_out": ("Held-out problems", ["held_out.toml", "held_out_rivals.toml"]),
    "held_out_minigrid": ("Held-out problems of MiniGrid", ["held_out_minigrid.toml"]),
}
Areas = dict[int, float]  # by seed


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


def short(env: str) -> str:
    return env.removeprefix("bdqn/").rpartition("-v")[0]


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
    say_episodes(page, found)


def say_episodes(page: Page, found: Comparison) -> None:
    """When each seed first found something, and when it had solved the problem."""
    rows = read_rows(page.results / "episodes.csv")
    lines = [["environment", "agent", "first found in episode", "solved in episode", "episodes in all"]]
    for env in found.envs:
        for group in found.groups:
            mine = sorted((r for r in rows if (r["env"], r["group"]) == (env, group)), key=lambda r: int(r["seed"]))
            if mine:
                cells = (", ".join(row[name] or "-" for row in mine) for name in ("first", "solved", "episodes"))
                lines.append([short(env), group, *cells])
    if len(lines) > 1:
        page.say(
            "Episodes, one number per seed. Found: an episode with a quarter of the optimum. Solved: 20 in a row that\n"
            "average 80 % of it."
        )
        page.cells(lines)


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
    """The default's area over plain Bayesian DQN's, paired by seed."""
    found = page.read("dense_explore.toml").found
    parts = [found, *(page.read(file).found for file in ("dense_more.toml", "dense_asterix.toml", "dense.toml"))]
    parts.append(read_results(page.folder.parent / "deep_cost" / "results"))
    lines = [["environment", "seeds", f"`{PLAIN}`", f"`{DEFAULT}`", "ratio"]]
    ratios: dict[str, Areas] = {}
    for env in found.envs:
        floor = -500.0 if env == "Acrobot-v1" else 0.0  # returns there are negative: counted from the worst
        ours, theirs = (
            {run.seed: run.area - floor for part in parts for run in part.of(group, env)} for group in (DEFAULT, PLAIN)
        )
        both = sorted(set(ours) & set(theirs))
        if len(both) > 1:
            ratios[env] = {seed: ours[seed] / theirs[seed] for seed in both}
            columns = (theirs, ours, ratios[env])
            cells = (text(interval(page, {seed: areas[seed] for seed in both})) for areas in columns)
            lines.append([env, str(len(both)), *cells])
    if len(lines) > 1:
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
page.say("## Space Invaders: one part switched off, or wider")
page.compare(page.read("space_invaders.toml").found, PLAIN, LEVEL)
page.write()
