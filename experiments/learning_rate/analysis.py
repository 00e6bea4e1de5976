"""Does a learning rate ten times larger break Double DQN, and not Bayesian DQN?

Reads the CSV files of results/ only: python experiments/learning_rate/analysis.py
"""

from __future__ import annotations

import numpy as np

from bdqn.report import stats
from bdqn.report.compare import SCORES, Comparison
from bdqn.report.experiment import Page, Study, of_statistic, part_of, side, verdict
from bdqn.report.tables import Row, pair_rows

NAMES = {"ddqn": "Double DQN", "bdqn": "Bayesian DQN"}
FILES = {"Adam": "sweep.toml", "the paper's RMSProp": "rmsprop.toml"}
BROKEN = 0.5  # a score that has fallen to less than this share of that at the preset's rate, interval and all


def rates_of(study: Study, agent: str) -> dict[str, str]:
    """The groups of an agent, by how many times the first rate theirs is."""
    rates = {t.group: float(t.settings["learning_rate"]) for t in study.sweep.trials if t.agent == agent}
    first = next(iter(rates.values()))
    return {f"{rate / first:g}x": group for group, rate in rates.items()}


def has_broken(found: Comparison, row: Row, rng: np.random.Generator) -> bool:
    """Whether what is left beyond that share lies below nothing; unlike a ratio it stands a score of 0."""
    ours, theirs = ({row.env: found.scores(group, row.score)[row.env]} for group in (row.group, row.baseline))

    def beyond(x: stats.Scores, y: stats.Scores) -> stats.Value:
        return stats.mean(x) - BROKEN * stats.mean(y)

    estimate, (low, high), _ = stats.bootstrap_pair(beyond, ours, theirs, rng)
    figures = (float(estimate), float(low), float(high))
    return side(Row(row.env, row.group, row.baseline, row.score, "beyond", row.seeds, *figures)) < 0


def sentences(found: Comparison, rows: list[Row], agent: str, times: dict[str, str]) -> list[str]:
    """Every rate beside the preset's, in every score, per game and over both."""
    said = []
    for score in SCORES:
        # Differences are there where ratios are not, but not over both games.
        known = {(row.group, row.env): row for row in of_statistic(rows, "difference", score)}
        ratio_of = {(row.group, row.env): row for row in of_statistic(rows, "ratio", score)}
        for (group, env), row in sorted({**ratio_of, **known}.items(), key=lambda item: list(times).index(item[0][0])):
            ratio = verdict(ratio_of[group, env]) if (group, env) in ratio_of else "not known: a seed scored nothing"
            broken = row.env in found.envs and has_broken(found, row, page.rng)
            end = f" It has lost more than half: {NAMES[agent]} is broken there." if broken else ""
            said.append(f"{env}, {NAMES[agent]} at {times[group]}: {score} over that at 1x is {ratio}.{end}")
    return said


def between_agents(found: Comparison, groups: dict[str, dict[str, str]]) -> list[str]:
    """Bayesian DQN over Double DQN, each rate by itself: a rate that suits one of them tells little of the other."""
    said = []
    for times, ddqn in groups["ddqn"].items():
        rows = pair_rows(part_of(found, [ddqn, groups["bdqn"][times]]), ddqn, page.rng)
        ratios = (row for score in SCORES for row in of_statistic(rows, "ratio", score))
        said += [f"{row.env}, both at {times}: {row.score} ratio {verdict(row)}." for row in ratios]
    return said


def with_optimizer(name: str, file: str) -> Study:
    """Each agent beside itself at the preset's rate, and then beside the other."""
    page.say(f"## With {name}")
    study = page.read(file)
    rows: list[Row] = []
    groups = {agent: rates_of(study, agent) for agent in NAMES}
    for agent, rates in groups.items():
        mine = part_of(study.found, list(rates.values()))
        if mine.results:
            page.say(f"### {NAMES[agent]}")
            compared = page.compare(mine, rates["1x"])
            rows += compared
            page.points(sentences(mine, compared, agent, {group: times for times, group in rates.items()}))
    if rows:
        page.say("### Bayesian DQN over Double DQN")
        page.points(between_agents(study.found, groups))
    lines = {NAMES[agent]: rates for agent, rates in groups.items()}
    figure = "adam.png" if file == "sweep.toml" else "rmsprop.png"
    page.settings(figure, rows, lines, "learning rate, in the preset's")
    return study


def heads_and_draws(study: Study) -> None:
    """At ten times the rate: Double DQN, Bayesian DQN, and each of the two changes that lie between them."""
    page.say("## Head and exploration at ten times the rate, with Adam")
    between = page.read("heads.toml").found
    ddqn, bdqn = (rates_of(study, agent)["10x"] for agent in NAMES)
    cells = Comparison((*part_of(study.found, [ddqn, bdqn]).results, *between.results), ())
    rows = page.compare(cells, ddqn)
    ratios = (row for score in SCORES for row in of_statistic(rows, "ratio", score))
    page.points([f"{row.env}, {row.group}: {row.score} over Double DQN's is {verdict(row)}." for row in ratios])
    page.curves("heads.png", cells)


page = Page(__file__)
page.say("# Learning rates: does ten times break Double DQN, and not Bayesian DQN?")
adam, _ = [with_optimizer(name, file) for name, file in FILES.items()]
heads_and_draws(adam)
page.write()
