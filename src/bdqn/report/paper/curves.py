"""The paper's figures for a page: learning curves as far as our runs go, and a line that says what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from bdqn.report.charts import Series, line_chart
from bdqn.report.html import Html, tag
from bdqn.report.paper import published
from bdqn.report.paper.drawings import drawings
from bdqn.report.paper.our_runs import DROPOUT_AGENTS, game_of, ours_by_game, setting_of, unlimited_atlantis
from bdqn.report.runs import RunRecord, Runs, grouped
from bdqn.report.summary import band, charts, colour_of


def _lines(runs: Runs, records: Sequence[RunRecord], rng: np.random.Generator) -> list[Series]:
    """Learning curves of some runs, by group."""
    return [
        band(group, colour_of(runs, group), mine[0].step, np.array([record.curve for record in mine]), rng)
        for group, mine in grouped(records, attrgetter("group")).items()
    ]


def game_curves(runs: Runs, rng: np.random.Generator) -> Html:
    """Learning curves of the 15 games; the page names those that have none."""
    drawn = {}
    for game, ours in ours_by_game(runs, 0).items():
        if records := [*ours.of("bdqn"), *ours.of("ddqn")]:
            drawn[game] = line_chart(f"game-{game}", published.full_name(game), _lines(runs, records, rng), "return")
    known = {game_of(env) for env in runs.envs}
    absent = [published.full_name(game) for game in published.GAMES if game not in known]
    others = [published.full_name(game) for game in published.GAMES if game in known and game not in drawn]
    limited = ["Atlantis with the frame limit" if name == "Atlantis" else name for name in others]
    lacks = {"no runs of": absent, "no runs of bdqn or ddqn, only of other agents, on": limited}
    notes = (
        tag("p", f"Missing: {what} {', '.join(names)}.", class_="missing") for what, names in lacks.items() if names
    )
    return tag("div", tag("h3", "Learning curves of the 15 games"), charts(list(drawn.values())), *notes)


def _figure(title: str, lacks: str, drawn: Sequence[Html]) -> Html:
    """Charts below a heading; if there are none, what is missing."""
    body = charts(drawn) if drawn else tag("p", f"Missing: {lacks}", class_="missing")
    return tag("div", tag("h3", title), body)


def _variants(
    runs: Runs, rng: np.random.Generator, title: str, lacks: str, records: Mapping[str, Sequence[RunRecord]]
) -> Html:
    """A figure with a chart per environment."""
    drawn = [
        line_chart(f"{title.split()[0].lower()}-{i}", env, _lines(runs, mine, rng), "return")
        for i, (env, mine) in enumerate(records.items())
    ]
    return _figure(title, lacks, drawn)


def figures(runs: Runs, rng: np.random.Generator) -> list[Html]:
    """The paper's figures, as far as our runs go, and its drawings."""
    usual = grouped((record for record in runs.records if not unlimited_atlantis(record)), attrgetter("env"))
    unlimited = grouped((record for record in runs.records if unlimited_atlantis(record)), attrgetter("env"))
    dropout = {
        env: [r for r in mine if r.agent in DROPOUT_AGENTS.values()]
        for env, mine in usual.items()
        if any(r.agent == "dropout" for r in mine)
    }
    rates = {
        env: [r for r in mine if r.agent in ("bdqn", "ddqn")] for env, mine in usual.items() if _with_two_rates(mine)
    }
    atlantis = {env: mine for env, mine in usual.items() if game_of(env) == "Atlantis"}
    return [
        game_curves(runs, rng),
        _variants(runs, rng, "Dropout as an exploration strategy", "no runs of agent dropout.", dropout),
        _variants(runs, rng, "Learning rate and DDQN", "no environment has ddqn with two learning rates.", rates),
        _variants(runs, rng, "Unlimited Atlantis", "no runs of Atlantis with max_episode_frames = 0.", unlimited),
        _repeated(runs, atlantis | {f"{env}, no frame limit": mine for env, mine in unlimited.items()}),
        *drawings(rng),
    ]


def _with_two_rates(records: Iterable[RunRecord]) -> bool:
    rates = {r.group: setting_of(r, "learning_rate") for r in records if r.agent == "ddqn"}
    return len(set(rates.values()) - {None}) > 1


def _repeated(runs: Runs, atlantis: Mapping[str, Sequence[RunRecord]]) -> Html:
    """Repeated runs of Atlantis: a line per seed."""
    drawn = []
    for i, (title, records) in enumerate(atlantis.items()):
        mine = [r for r in records if r.agent == "bdqn"]
        lines = [Series(r.group, colour_of(runs, r.group), r.step, r.curve, thin=True) for r in mine]
        drawn += [line_chart(f"repeated-{i}", title, lines, "return")] if lines else []
    return _figure("Repeated runs of Atlantis", "no runs of bdqn on Atlantis.", drawn)
