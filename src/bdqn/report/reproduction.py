"""The paper's tables with our cells beside its own, and its figures as far as our runs go; what is missing says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bdqn.report import paper
from bdqn.report.charts import Series, line_chart, si
from bdqn.report.drawings import drawings
from bdqn.report.grid import MISSING, Grid, grid
from bdqn.report.html import Html, tag
from bdqn.report.runs import Record, Runs
from bdqn.report.summary import charts, colour_of, curve_series, section, show

GREEDY_EPSILON = 0.001  # of DDQN+
ID = re.compile(r"(?:ALE/)?(\w+?)(?:NoFrameskip|Deterministic)?-v\d+")


def game_of(env: str) -> str | None:
    """The paper's name of an environment's game."""
    match = ID.fullmatch(env)
    names = {paper.full_name(game): game for game in paper.GAMES}
    return names.get(match[1]) if match else None


@dataclass(frozen=True)
class Ours:
    """Our runs of one game, by what they stand for in the paper: the first group of each agent."""

    game: str
    runs: Runs

    def of(self, agent: str) -> list[Record]:
        mine = [r for r in self.runs.records if game_of(r.env) == self.game and r.agent == agent]
        return [r for r in mine if r.group == mine[0].group]

    def score(self, agent: str) -> float:
        return _mean([record.final for record in self.of(agent)])

    def plus(self) -> float:
        """DDQN+: at evaluation epsilon 0.001 where somebody asked for it."""
        return _mean([record.evaluated_at(GREEDY_EPSILON) for record in self.of("ddqn")])

    def area(self) -> float:
        """AuPPr."""
        ours, theirs = (_mean([record.area for record in self.of(agent)]) for agent in ("bdqn", "ddqn"))
        return paper.score_ratio(ours, theirs, paper.shift_of(self.game))

    def complexity(self, score: float) -> str:
        """Decisions until a score is beaten, over seeds; "-" for seeds that never did."""
        mine = self.of("bdqn")
        if not mine or np.isnan(score):
            return MISSING
        found = [paper.decisions_to_beat(*record.episodes, score) for record in mine]
        reached = [value for value in found if np.isfinite(value)]
        if not reached:
            return "-"
        share = "" if len(reached) == len(found) else f" ({len(reached)} of {len(found)} seeds)"
        return si(_mean(reached)) + share

    def steps(self) -> str:
        mine = [record.decisions for agent in ("bdqn", "ddqn") for record in self.of(agent)]
        return si(min(mine)) if mine else MISSING


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else np.nan


def _cell(value: float, shown: Callable[[float], str] = si) -> str:
    return MISSING if np.isnan(value) else shown(value)


def score_table(runs: Runs) -> Grid:
    """Table 2, and ours."""
    rows = []
    for game, cells in paper.SCORES.rows.items():
        ours = Ours(game, runs)
        human = cells["Human"].value
        values = {
            "BDQN": _cell(ours.score("bdqn")),
            "DDQN": _cell(ours.score("ddqn")),
            "DDQN+": _cell(ours.plus()),
            "Bootstrap": _cell(ours.score("bootstrapped")),
            "NoisyNet": _cell(ours.score("noisy")),
            "SC": ours.complexity(human),
            "SC+": ours.complexity(cells["DDQN+"].value),
            "Step": ours.steps(),
        }
        rows.append([game, *_beside(paper.SCORES, cells, values), show(paper.LATER_HUMAN[game])])
    note = (
        "Ours: mean over seeds of the last 100 episodes; DDQN+ is our DDQN at evaluation epsilon 0.001 (bdqn evaluate "
        "RUN --epsilon 0.001 --json > RUN/evaluate.json). SC and SC+ count decisions until our BDQN beats the paper's "
        "Human and DDQN+. A dash: never reached. CTS, Pixel and Reactor are not implemented here. The last column: "
        "human scores of Wang et al. (2016), which later papers use."
    )
    return _paired("paper-table-2", paper.SCORES, rows, list(values), note, "Human, later")


def ratio_table(runs: Runs) -> Grid:
    """Table 3, and ours; the ratios of its own scores stand beside those that it prints."""
    rows = []
    for game in paper.GAMES:
        cells, ours = paper.RATIOS.rows[paper.full_name(game)], Ours(game, runs)
        score, human, plus = ours.score("bdqn"), paper.SCORES.rows[game]["Human"].value, ours.plus()
        values = {
            "BDQN/DDQN": _cell(paper.score_ratio(score, ours.score("ddqn")), paper.percent),
            "BDQN/DDQN+": _cell(paper.score_ratio(score, plus), paper.percent),
            "BDQN/Human": _cell(paper.score_ratio(score, human), paper.percent),
            "AuPPr": _cell(ours.area(), paper.percent),
            "SC": ours.complexity(human),
            "SC+": ours.complexity(paper.SCORES.rows[game]["DDQN+"].value),
            "Steps": ours.steps(),
        }
        rows.append([paper.full_name(game), *_beside(paper.RATIOS, cells, values)])
    note = "Ours from our scores; Pong's areas are shifted by 21, its scores are not (as in the paper)."
    return _paired("paper-table-3", paper.RATIOS, rows, list(values), note)


def dropout_table(runs: Runs) -> Grid:
    """Table 4, and ours."""
    rows = []
    for game, cells in paper.DROPOUT.rows.items():
        ours = Ours(game, runs)
        values = {
            "BDQN": _cell(ours.score("bdqn")),
            "DDQN": _cell(ours.score("ddqn")),
            "DDQN+": _cell(ours.plus()),
            "Dropout-DDQN": _cell(ours.score("dropout")),
            "Random": _cell(ours.score("random")),
            "Step": ours.steps(),
        }
        rows.append([game, *_beside(paper.DROPOUT, cells, values)])
    return _paired("paper-table-4", paper.DROPOUT, rows, list(values), "")


def _beside(table: paper.Table, cells: Mapping[str, paper.Cell], ours: Mapping[str, str]) -> list[str]:
    """The paper's cells, each followed by ours where there is one."""
    row = []
    for column in table.columns:
        row.append(cells[column].text)
        if column in ours:
            row.append(ours[column])
    return row


def _paired(
    name: str, table: paper.Table, rows: Sequence[Sequence[str]], ours: Sequence[str], note: str, *more: str
) -> Grid:
    heading = ["game"]
    columns = []
    for column in table.columns:
        heading.append(column)
        if column in ours:
            columns.append(len(heading))
            heading.append(f"{column} ours")
    made = grid(name, f"Table {table.number}. {table.title}", [*heading, *more], rows, note)
    return replace(made, ours=frozenset(columns))


def hyperparameter_table(runs: Runs) -> Grid:
    """Table 5, and the settings that our Bayesian DQN ran with."""
    groups = [group for group in runs.groups if runs.of(group)[0].agent == "bdqn"]
    rows = []
    for symbol, (printed, name, value) in paper.HYPERPARAMETERS.items():
        ours = [_distinct([record.settings.get(name) for record in runs.of(group)]) for group in groups]
        rows.append([symbol, printed, name, f"{value:g}", *(ours or [MISSING])])
    heading = ["symbol", "printed", "setting", "preset paper", *(groups or ["ours"])]
    made = grid("paper-table-5", "Table 5. Hyper-parameters", heading, rows, "Marked: ours differs.")
    differing = {i for i, row in enumerate(rows) if any(cell not in (row[3], MISSING) for cell in row[4:])}
    return replace(made, ours=frozenset(range(4, len(heading))), marked=frozenset(differing))


def _distinct(values: Sequence[object]) -> str:
    return " / ".join(dict.fromkeys(f"{v:g}" if isinstance(v, int | float) else str(v) for v in values))


def strategy_table() -> Grid:
    """Table 1."""
    columns = list(next(iter(paper.STRATEGIES.values())))
    rows = [[name, *("yes" if has else "no" for has in looks.values())] for name, looks in paper.STRATEGIES.items()]
    return grid("paper-table-1", "Table 1. What each strategy looks at", ["strategy", *columns], rows)


def check_table() -> Grid:
    """Where the paper's figures do not follow from its own."""
    rows = [[c.where, c.printed, c.recomputed, c.remark] for c in paper.disagreements()]
    heading = ["where", "printed", "recomputed", "why"]
    note = "Every derived cell and headline figure was worked out again from the printed scores; these do not agree."
    return grid("paper-disagreements", "Where the paper disagrees with itself", heading, rows, note)


def claim_table() -> Grid:
    rows = [[c.where, c.printed, c.recomputed, "yes" if c.agrees else "no", c.remark] for c in paper.claims()]
    heading = ["claim", "printed", "recomputed", "agrees", "remark"]
    return grid("paper-claims", "The headline claims, recomputed from the paper's own tables", heading, rows)


def tables(runs: Runs) -> list[Grid]:
    """All of the paper's tables, with ours."""
    paired = [score_table(runs), ratio_table(runs), dropout_table(runs), hyperparameter_table(runs)]
    return [strategy_table(), *paired, claim_table(), check_table()]


# --- figures ------------------------------------------------------------------------------------------------------


def game_curves(runs: Runs, rng: np.random.Generator) -> Html:
    """The learning curves of the 15 games; those without runs are named."""
    envs = {game: next((env for env in runs.envs if game_of(env) == game), None) for game in paper.GAMES}
    drawn = []
    for game, env in envs.items():
        agents = ("bdqn", "ddqn")
        groups = [] if env is None else [r.group for a in agents for r in Ours(game, runs).of(a)[:1]]
        if env is not None and groups:
            lines = curve_series(runs, env, groups, rng)
            drawn.append(line_chart(f"game-{game}", paper.full_name(game), lines, "return"))
    absent = [paper.full_name(game) for game, env in envs.items() if env is None]
    note = tag("p", f"Missing: no runs of {', '.join(absent)}.", class_="missing") if absent else Html("")
    return tag("div", tag("h3", "Learning curves of the 15 games"), charts(drawn), note)


def _variants(runs: Runs, rng: np.random.Generator, title: str, lacks: str, groups: dict[str, list[str]]) -> Html:
    """A figure with a chart per environment; without any, what would fill it."""
    drawn = [
        line_chart(f"{title.split()[0].lower()}-{i}", env, curve_series(runs, env, names, rng), "return")
        for i, (env, names) in enumerate(groups.items())
    ]
    body = charts(drawn) if drawn else tag("p", f"Missing: {lacks}", class_="missing")
    return tag("div", tag("h3", title), body)


def figures(runs: Runs, rng: np.random.Generator) -> list[Html]:
    """The paper's figures as far as our runs go, and its drawings."""
    groups = {env: [g for g in runs.groups if runs.of(g, env)] for env in runs.envs}
    agent = {group: runs.of(group)[0].agent for group in runs.groups}
    dropout = {
        env: [g for g in mine if agent[g] in ("bdqn", "ddqn", "dropout", "random")]
        for env, mine in groups.items()
        if any(agent[g] == "dropout" for g in mine)
    }
    rates = {
        env: [g for g in mine if agent[g] in ("bdqn", "ddqn")]
        for env, mine in groups.items()
        if len({runs.of(g, env)[0].settings.get("learning_rate") for g in mine if agent[g] == "ddqn"}) > 1
    }
    atlantis = {env: mine for env, mine in groups.items() if game_of(env) == "Atlantis"}
    unlimited = {
        env: [g for g in mine if runs.of(g, env)[0].settings.get("max_episode_frames") == 0]
        for env, mine in atlantis.items()
    }
    return [
        game_curves(runs, rng),
        _variants(runs, rng, "Dropout as an exploration strategy", "no runs of agent dropout.", dropout),
        _variants(runs, rng, "Learning rate and DDQN", "no environment has ddqn with two learning rates.", rates),
        _variants(
            runs,
            rng,
            "Unlimited Atlantis",
            "no runs of Atlantis with max_episode_frames = 0.",
            {env: mine for env, mine in unlimited.items() if mine},
        ),
        _repeated(runs, atlantis),
        *drawings(rng),
    ]


def _repeated(runs: Runs, atlantis: dict[str, list[str]]) -> Html:
    """Atlantis again and again: every seed is a line."""
    drawn = []
    for env, groups in atlantis.items():
        mine = [record for group in groups for record in runs.of(group, env) if record.agent == "bdqn"]
        lines = [Series(r.group, colour_of(runs, r.group), r.step, r.curve, thin=True) for r in mine]
        drawn.append(line_chart(f"repeated-{env}", env, lines, "return"))
    missing = tag("p", "Missing: no runs of Atlantis.", class_="missing")
    return tag("div", tag("h3", "Repeated runs of Atlantis"), charts(drawn) if drawn else missing)


def paper_section(runs: Runs, made: Sequence[Grid], rng: np.random.Generator) -> Html:
    return section(
        "The paper beside our runs",
        *(table.html() for table in made),
        *figures(runs, rng),
        lead="Tables and figures of arXiv:1802.04412. Tinted columns are ours. The paper counts interactions, we count "
        "decisions; one run per game in the paper, ours over seeds.",
    )
