"""Bayesian DQN and Double DQN on Atari: every run that there is. The paper's tables are bdqn report's.

Reads the CSV files of results/ only: python experiments/atari/analysis.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from bdqn.report import stats
from bdqn.report.collect import read_rows
from bdqn.report.experiment import Page, Study
from bdqn.report.figures import label, look
from bdqn.sweep.plan import FULL, Sweep, read_scales

FILES = {
    "Pong, from start to end": "pong.toml",
    "Pong once more": "pong_repeated.toml",
    "Two games, small": "small.toml",
    "The paper's 15 games": "sweep.toml",
    "Rivals on these games": "rivals.toml",
    "Double DQN's learning rate": "learning_rate.toml",
    "The paper's search on Assault": "search.toml",
    "Dropout, and random actions": "dropout.toml",
    "Dropout on Pong for 50 million decisions": "dropout_pong.toml",
    "Atlantis, five more times": "atlantis_repeated.toml",
    "Atlantis without the frame limit": "atlantis.toml",
}
Rows = Sequence[Mapping[str, str]]
LEVEL = 0.9  # of the intervals of random scores
MNIH = {  # what random actions score: Mnih et al. (2015), extended data table 2
    "Alien": 227.8,
    "Amidar": 5.8,
    "Assault": 222.4,
    "Asterix": 210.0,
    "Asteroids": 719.1,
    "Atlantis": 12_850.0,
    "BankHeist": 14.2,
    "BattleZone": 2_360.0,
    "BeamRider": 363.9,
    "Centipede": 2_091.0,
    "ChopperCommand": 811.0,
    "CrazyClimber": 10_781.0,
    "DemonAttack": 152.1,
    "Enduro": 0.0,
    "Pong": -20.7,
}


def lengths_of(scales: Mapping[str, Sweep]) -> dict[str, int]:
    """For how many decisions each game is to be run, by the scales that are named after it: 5M and so on."""
    by_length = [sweep for name, sweep in scales.items() if re.fullmatch(r"\d+M", name)]
    return {trial.env: sweep.steps for sweep in by_length for trial in sweep.trials}


def say_random_scores(page: Page) -> None:
    """What random_scores.py measured, beside what was published."""
    rows = read_rows(page.folder / "results" / "random.csv")
    page.say("## Random actions")
    if not rows:
        page.say("random_scores.py has measured nothing yet.")
        return
    cells = [["game", "episodes", f"mean score ({100 * LEVEL:g} %)", "Mnih et al. (2015)", "decisions per episode"]]
    for env in dict.fromkeys(row["env"] for row in rows):
        own = [row for row in rows if row["env"] == env]
        scores, lengths = (np.array([float(row[name]) for row in own]) for name in ("score", "decisions"))
        ends = stats.bootstrap(stats.mean, {env: scores}, page.rng, level=LEVEL)
        mean = f"{scores.mean():,.1f} ({ends.low:,.1f} to {ends.high:,.1f})"
        game = env.removeprefix("ALE/").removesuffix("-v5")
        cells.append([game, str(len(own)), mean, f"{MNIH[game]:,.1f}", f"{lengths.mean():,.0f}"])
    page.cells(cells)


BELIEF = {  # what details.py keeps at each refit, and how the figure calls it
    "posterior/std_mean": "posterior std of Q, mean over screens",
    "posterior/draw_differs": "share of draws that act differently from the mean",
}


def say_details(page: Page, study: Study, name: str) -> None:
    """What details.py kept beside scores: a table with a column per run, and how the belief changed."""
    rows = read_rows(page.results / name / "details.csv")
    if not rows:
        return
    runs = dict.fromkeys((row["group"], row["seed"]) for row in rows)
    values = {(row["what"], row["group"], row["seed"]): row["value"] for row in rows}  # of several, the last
    cells = [["", *(f"{group}, seed {seed}" for group, seed in runs)]]
    for what in dict.fromkeys(row["what"] for row in rows if row["what"] not in BELIEF):
        cells.append([what, *(f"{float(values.get((what, *run), 'nan')):,g}".replace("nan", "-") for run in runs)])
    page.cells(cells)
    page.figure(f"{name}-belief.png", belief_figure(rows, study))


def belief_figure(rows: Rows, study: Study) -> Figure:
    """Returns, and below them what the posterior said meanwhile."""
    figure = Figure(figsize=(7, 7), layout="constrained")
    top, *others = figure.subplots(1 + len(BELIEF), sharex=True)
    for place, group in enumerate(study.found.groups):
        for result in study.found.results:
            if result.group == group:
                top.plot(result.step, result.curve, **look(place), label=f"{group}, seed {result.seed}")
        for axes, what in zip(others, BELIEF, strict=True):
            own = [row for row in rows if (row["what"], row["group"]) == (what, group)]
            for seed in dict.fromkeys(row["seed"] for row in own):
                points = [(float(row["step"]), float(row["value"])) for row in own if row["seed"] == seed]
                axes.plot(*zip(*points, strict=True), **look(place), label=group)
    label(top, "", "return, mean of 100 episodes")
    for axes, what in zip(others, BELIEF.values(), strict=True):
        axes.set_title(what, fontsize="medium")
        axes.set_ylim(bottom=0)
    others[-1].set_xlabel("decisions")
    return figure


page = Page(__file__)
page.say("# Bayesian DQN and Double DQN on Atari")
for title, file in FILES.items():
    page.say(f"## {title}")
    scales = read_scales(page.folder / file)
    if page.scale not in scales:
        page.say(f"{file} has no scale {page.scale}.")
        continue
    study = page.read(file, lengths_of(scales) if page.scale == FULL else None)
    page.runs(study.found)
    if study.found.groups:
        page.compare(study.found, "ddqn" if "ddqn" in study.found.groups else study.found.groups[0])
    page.curves(f"{file.removesuffix('.toml')}.png", study.found)
    if file.startswith("pong"):
        say_details(page, study, file.removesuffix(".toml"))
say_random_scores(page)
page.write()
