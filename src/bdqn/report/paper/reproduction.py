"""The paper's tables with our cells beside its own, and its figures as far as our runs go; what is missing says so."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from statistics import fmean
from typing import Any

import numpy as np

from bdqn.agents.bdqn import Settings
from bdqn.config.settings import ReadWith
from bdqn.report import stats
from bdqn.report.charts import Series, line_chart, si
from bdqn.report.compare import caution
from bdqn.report.grid import DASH, MISSING, NO_RATIO, Cell, Column, Grid, grid
from bdqn.report.html import Html, tag
from bdqn.report.paper import published
from bdqn.report.paper.drawings import drawings
from bdqn.report.runs import Record, Runs, grouped
from bdqn.report.summary import band, charts, colour_of, fewer_episodes, section, show

GREEDY_EPSILON = 0.001  # of DDQN+
ID = re.compile(r"(?:ALE/)?(\w+?)(?:NoFrameskip|Deterministic)?-v\d+")
# Columns of Tables 2 and 4, and the agents that fill them.
AGENTS = {"BDQN": "bdqn", "DDQN": "ddqn", "Bootstrap": "bootstrapped", "NoisyNet": "noisy"}
DROPOUT_AGENTS = {"BDQN": "bdqn", "DDQN": "ddqn", "Dropout-DDQN": "dropout", "Random": "random"}
FILLING = {**AGENTS, **DROPOUT_AGENTS}
# What makes an agent of that name the paper's.
OF_PAPER = {"bdqn": {"acting": "thompson", "last_layer": "regression"}}
# Settings of Table 5 that do nothing without these, although they may be set.
ALSO_READ_WITH: ReadWith = {
    "sample_interval": ("acting", "thompson"),
    "posterior_batch_size": ("posterior_data", "replay"),
}
INSTEAD = {"episode": "per episode", "inverse-gamma": "learned"}  # of a number: what a switch's value comes to

Score = Callable[[Record], float]
final: Score = attrgetter("final")


def game_of(env: str) -> str | None:
    """The paper's name of an environment's game."""
    match = ID.fullmatch(env)
    names = {published.full_name(game): game for game in published.GAMES}
    return names.get(match[1]) if match else None


def unlimited_atlantis(record: Record) -> bool:
    """Whether this is Atlantis without the frame limit, which the paper shows in a figure of its own."""
    in_force = str(record.meta.get("protocol"))  # where the setting is left to the protocol
    unlimited = record.settings.get("max_episode_frames") == 0 or "no frame limit" in in_force
    return unlimited and game_of(record.env) == "Atlantis"


def at_greedy_epsilon(record: Record) -> float:
    """DDQN+: at evaluation epsilon 0.001 where somebody asked for it."""
    return record.evaluated_at(GREEDY_EPSILON)


def setting_of(record: Record, name: str) -> str | None:
    """What a run was set to, as text; of kept results, what their group's name says of it. None: not known."""
    named = dict(word.split("=", 1) for word in record.group.split() if "=" in word)
    found = named.get(name) if record.kept else record.settings.get(name)
    return None if found is None else str(found)


def unlike_paper(record: Record) -> bool:
    """Whether this is known to be another agent than the paper's of that name."""
    wanted = OF_PAPER.get(record.agent, {})
    return any(setting_of(record, name) not in (None, value) for name, value in wanted.items())


@dataclass(frozen=True)
class Ours:
    """Our runs of one game, by what they stand for in the paper: of one environment, and of one group per agent."""

    game: str
    by_agent: Mapping[str, Sequence[Record]]
    seed: int  # of the bootstrap, so that the same scores have the same interval in every table

    def of(self, agent: str) -> Sequence[Record]:
        return self.by_agent.get(agent, ())

    def by_seed(self, agent: str, score: Score = final) -> dict[int, float]:
        """Scores by seed; none unless all are known."""
        found = {record.seed: score(record) for record in self.of(agent)}
        return found if np.isfinite(list(found.values())).all() else {}

    def score(self, agent: str, score: Score = final) -> Cell:
        scores = self.by_seed(agent, score)
        short = fewer_episodes(self.of(agent)) if score is final else ""  # an evaluation has its own episodes
        return self._over_seeds(scores, short) if scores else Cell(MISSING)

    def ratio(self, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Cell:
        """One mean over seeds over another; an interval needs several seeds of both, and positive scores."""
        if not ours or not theirs:
            return Cell(MISSING)
        value = published.score_ratio(fmean(ours.values()), fmean(theirs.values()))
        if np.isnan(value):
            return Cell(NO_RATIO)
        interval = None
        if min(len(ours), len(theirs)) > 1 and min(*ours.values(), *theirs.values()) > 0:
            interval = stats.paired_ratio({self.game: ours}, {self.game: theirs}, self._rng()).interval
        return _estimate(value, interval, [len(ours), len(theirs)], published.percent)

    def area(self, record: Record) -> float:
        """Under the learning curve, as it is compared in AuPPr."""
        return record.area + published.shift_of(self.game)

    def complexity(self, column: str) -> Cell:
        """Decisions until our BDQN beats a score of the paper; "-" if no seed ever did."""
        if any(record.kept for record in self.of("bdqn")):
            return Cell(MISSING)  # episodes are not kept
        score = published.SCORES.rows[self.game][column].value
        found = {r.seed: published.decisions_to_beat(*r.episodes, score) for r in self.of("bdqn")}
        reached = {seed: value for seed, value in found.items() if np.isfinite(value)}
        if not reached:
            return Cell(DASH if found else MISSING)
        if len(reached) < len(found):
            mean = fmean(reached.values())
            return Cell(f"{si(mean)} ({len(reached)} of {len(found)} seeds)", mean, np.nan, np.nan, len(reached))
        return self._over_seeds(reached)

    def steps(self, agents: Iterable[str]) -> Cell:
        """The decisions that scores stand for: those that all runs of an environment have taken."""
        ends = sorted({float(record.step[-1]) for agent in agents for record in self.of(agent)})
        return Cell(" / ".join(map(si, ends)), ends[0]) if ends else Cell(MISSING)

    def _over_seeds(self, scores: Mapping[int, float], note: str = "") -> Cell:
        values = np.array(list(scores.values()))
        interval = stats.bootstrap(stats.mean, {self.game: values}, self._rng()) if len(values) > 1 else None
        return _estimate(float(values.mean()), interval, [len(values)], si, note)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def ours_by_game(runs: Runs, seed: int) -> dict[str, Ours]:
    """What we have of every game: an agent's group that is like the paper's, the same on all games where it can be.

    That is the one with the most games; of several, the first.
    """
    usual = [r for r in runs.records if r.agent in FILLING.values() and not unlimited_atlantis(r)]
    played = {game: _in_one_env([r for r in usual if game_of(r.env) == game]) for game in published.GAMES}
    games = Counter(group for records in played.values() for group in {r.group for r in records})

    def chosen(records: Sequence[Record]) -> Sequence[Record]:
        groups = grouped(records, attrgetter("group"))
        return groups[min(groups, key=lambda group: (any(map(unlike_paper, groups[group])), -games[group]))]

    agents = {game: grouped(records, attrgetter("agent")) for game, records in played.items()}
    return {
        game: Ours(game, {agent: chosen(records) for agent, records in mine.items()}, seed)
        for game, mine in agents.items()
    }


def _in_one_env(records: Sequence[Record]) -> Sequence[Record]:
    """The runs of the first environment that has both sides of the paper's ratios; else one of them; else none."""

    def sides(mine: Sequence[Record]) -> int:
        return len({"bdqn", "ddqn"} & {record.agent for record in mine})

    return max(grouped(records, attrgetter("env")).values(), key=sides, default=[])


def _estimate(
    value: float, interval: stats.Interval | None, seeds: Sequence[int], shown: Callable[[float], str], note: str = ""
) -> Cell:
    """A figure with its interval, the number of seeds, of both sides where they differ, and what else it needs."""
    low, high = map(float, interval or (np.nan, np.nan))
    ends = [f"{shown(low)} to {shown(high)}"] if interval else []
    numbers = list(dict.fromkeys(seeds))
    counted = f"{' and '.join(map(str, numbers))} seed{'s' * (numbers != [1])}"
    text = f"{shown(value)} ({'; '.join(filter(None, [*ends, counted, note]))})"
    return Cell(text, value, low, high, min(seeds))


def score_table(ours: Mapping[str, Ours], runs: Runs) -> Grid:
    """Table 2, and ours."""
    rows = {}
    for game, cells in published.SCORES.rows.items():
        values = _scores(ours[game], AGENTS) | {
            "SC": ours[game].complexity("Human"),
            "SC+": ours[game].complexity("DDQN+"),
        }
        rows[game] = _beside(cells, ours=values) | {"Human, later": _number(published.LATER_HUMAN[game], show)}
    note = (
        "Ours: mean over seeds of the last 100 episodes (95 % bootstrap interval; seeds; episodes, where fewer had "
        "ended), over the decisions under Step, which all runs of the environment have taken. DDQN+ is our DDQN at "
        "evaluation epsilon 0.001 (bdqn evaluate RUNS --epsilon 0.001 --keep). SC and SC+ count decisions of whole "
        "runs until our BDQN beats the paper's Human and DDQN+. A dash: never reached. CTS, Pixel and Reactor are not "
        "implemented here. The last column: human scores of Wang et al. (2016), which later papers use. Bold: as the "
        "paper prints it."
    )
    return _paired("paper-table-2", published.SCORES, rows, f"{note} {caution(runs.records)}".strip())


def ratio_table(ours: Mapping[str, Ours]) -> Grid:
    """Table 3, and ours; the ratios of its own scores stand beside those that it prints."""
    rows = {}
    for game, mine in ours.items():
        scores, human = mine.by_seed("bdqn"), published.SCORES.rows[game]["Human"].value
        values = {
            "BDQN/DDQN": mine.ratio(scores, mine.by_seed("ddqn")),
            "BDQN/DDQN+": mine.ratio(scores, mine.by_seed("ddqn", at_greedy_epsilon)),
            "BDQN/Human": mine.ratio(scores, dict.fromkeys(scores, human)),
            "AuPPr": mine.ratio(mine.by_seed("bdqn", mine.area), mine.by_seed("ddqn", mine.area)),
            "SC": mine.complexity("Human"),
            "SC+": mine.complexity("DDQN+"),
            "Steps": mine.steps(("bdqn", "ddqn")),
        }
        again = {
            column: _number(published.ratio(game, column), published.percent) for column in published.RATIO_COLUMNS
        }
        rows[published.full_name(game)] = _beside(published.ratio_cells(game), recomputed=again, ours=values)
    note = (
        "Recomputed: from the scores of Table 2; marked where a printed ratio does not follow from them. Ours from "
        "our scores (95 % bootstrap interval; seeds), which must be positive; Pong's areas are shifted by 21, its "
        "scores are not (as in the paper)."
    )
    wrong = {i for i, game in enumerate(ours) if not all(published.follows(game, c) for c in published.RATIO_COLUMNS)}
    return replace(_paired("paper-table-3", published.RATIOS, rows, note), marked=frozenset(wrong))


def dropout_table(ours: Mapping[str, Ours]) -> Grid:
    """Table 4, and ours."""
    rows = {
        game: _beside(cells, ours=_scores(ours[game], DROPOUT_AGENTS)) for game, cells in published.DROPOUT.rows.items()
    }
    return _paired("paper-table-4", published.DROPOUT, rows, "Ours as in Table 2.")


def group_table(ours: Mapping[str, Ours]) -> Grid:
    """Which of our runs every column is made of."""
    rows = []
    for column, agent in FILLING.items():
        records = chain.from_iterable(mine.of(agent) for mine in ours.values())
        made = grouped(records, lambda record: (record.group, _telling(record)))
        lines = [[column, *made_of, ", ".join(grouped(mine, attrgetter("env")))] for made_of, mine in made.items()]
        rows += lines or [[column, MISSING, "-", "-"]]
    note = (
        "All cells of a game are of one environment: the first that has both bdqn and ddqn, else one of them. There, "
        "all cells of an agent are of one group. BDQN: one with acting = thompson and last_layer = regression, as in "
        "the paper, before others. Of several: the one with the most games, then the first. DDQN+ is of the same runs "
        "as DDQN."
    )
    heading = ["column", "group", "settings", "environments"]
    return grid("paper-groups", "What our columns are made of", heading, rows, note)


def _telling(record: Record) -> str:
    """The settings by which the paper's agent is told from others of its name."""
    known = {name: setting_of(record, name) for name in OF_PAPER.get(record.agent, {})}
    return ", ".join(f"{name} = {value or 'not known'}" for name, value in known.items()) or "-"


def _scores(ours: Ours, agents: Mapping[str, str]) -> dict[str, Cell]:
    """Our cells of a table of scores."""
    scores = {column: ours.score(agent) for column, agent in agents.items()}
    return {**scores, "DDQN+": ours.score("ddqn", at_greedy_epsilon), "Step": ours.steps(agents.values())}


def _number(value: float, shown: Callable[[float], str]) -> Cell:
    return Cell(shown(value), value)


def _beside(cells: Mapping[str, published.Cell], **more: Mapping[str, Cell]) -> dict[str, Cell]:
    """The paper's cells, each followed by those of other kinds that there are; by their headings."""
    row = {}
    for column, cell in cells.items():
        row[column] = Cell(cell.text, cell.value)
        row |= {f"{column} {kind}": values[column] for kind, values in more.items() if column in values}
    return row


def _column(title: str) -> Column:
    """Of the paper's numbers, or of figures of ours; the decisions that these stand for have no interval."""
    name = title.replace(",", "").replace(" ", "_")
    ours = title.endswith(" ours") and not title.startswith("Step")
    return Column.figure(title, name, "seeds") if ours else Column(title, [name])


def _paired(name: str, table: published.Table, rows: Mapping[str, Mapping[str, Cell]], note: str) -> Grid:
    heading = ["game", *map(_column, next(iter(rows.values())))]
    lines = ([game, *row.values()] for game, row in rows.items())
    made = grid(name, f"Table {table.number}. {table.title}", heading, lines, note)
    bold = (
        (i, heading.index(column))
        for i, cells in enumerate(table.rows.values())
        for column, cell in cells.items()
        if cell.bold
    )
    ours = (i for i, title in enumerate(heading) if title.endswith(" ours"))
    return replace(made, ours=frozenset(ours), bold=frozenset(bold))


def hyperparameter_table(runs: Runs) -> Grid:
    """Table 5, and the settings that our Bayesian DQN ran with."""
    runs = runs.recorded
    groups = [group for group in runs.groups if runs.of(group)[0].agent == "bdqn"]
    rows = []
    for symbol, (printed, name, value) in published.HYPERPARAMETERS.items():
        ours = [" / ".join(dict.fromkeys(_used(record.settings, name) for record in runs.of(g))) for g in groups]
        rows.append([symbol, printed, name, f"{value:g}", *(ours or [MISSING])])
    heading = ["symbol", "printed", "setting", "preset paper", *(groups or ["ours"])]
    made = grid("paper-table-5", "Table 5. Hyper-parameters", heading, rows, "Marked: ours differs.")
    differing = {i for i, row in enumerate(rows) if any(cell not in (row[3], "-", MISSING) for cell in row[4:])}
    return replace(made, ours=frozenset(range(4, len(heading))), marked=frozenset(differing))


def _used(settings: Mapping[str, Any], name: str) -> str:
    """A number that a run was set to; where it did not read it, what it did instead."""
    for switches in (ALSO_READ_WITH, Settings.READ_WITH):
        switch, needed = switches.get(name, ("", ""))
        found = settings.get(switch, needed)
        if found != needed:
            return INSTEAD.get(found, f"{switch} = {found}")
    return f"{settings[name]:g}" if name in settings else "-"


def strategy_table() -> Grid:
    """Table 1."""
    columns = list(next(iter(published.STRATEGIES.values())))
    rows = [[name, *("yes" if has else "no" for has in looks.values())] for name, looks in published.STRATEGIES.items()]
    return grid("paper-table-1", "Table 1. What each strategy looks at", ["strategy", *columns], rows)


def check_table() -> Grid:
    """Where the paper's figures do not follow from its own."""
    rows = [[c.where, c.printed, c.recomputed, c.remark] for c in published.disagreements()]
    heading = ["where", "printed", "recomputed", "why"]
    note = "Every derived cell and headline figure was worked out again from the printed scores; these do not agree."
    return grid("paper-disagreements", "Where the paper disagrees with itself", heading, rows, note)


def claim_table() -> Grid:
    rows = [[c.where, c.printed, c.recomputed, "yes" if c.agrees else "no", c.remark] for c in published.claims()]
    heading = ["claim", "printed", "recomputed", "agrees", "remark"]
    return grid("paper-claims", "The headline claims, recomputed from the paper's own tables", heading, rows)


def tables(runs: Runs, rng: np.random.Generator) -> list[Grid]:
    """All of the paper's tables, with ours."""
    seed = int(rng.integers(2**32))
    ours = ours_by_game(runs, seed)
    paired = [score_table(ours, runs), ratio_table(ours), dropout_table(ours), group_table(ours)]
    return [strategy_table(), *paired, hyperparameter_table(runs), claim_table(), check_table()]


# --- figures ------------------------------------------------------------------------------------------------------


def _lines(runs: Runs, records: Sequence[Record], rng: np.random.Generator) -> list[Series]:
    """Learning curves of some records, by group."""
    return [
        band(group, colour_of(runs, group), mine[0].step, np.array([record.curve for record in mine]), rng)
        for group, mine in grouped(records, attrgetter("group")).items()
    ]


def game_curves(runs: Runs, rng: np.random.Generator) -> Html:
    """The learning curves of the 15 games; those that are not drawn are named."""
    drawn = {}
    for game, ours in ours_by_game(runs, 0).items():
        if records := [*ours.of("bdqn"), *ours.of("ddqn")]:
            drawn[game] = line_chart(f"game-{game}", published.full_name(game), _lines(runs, records, rng), "return")
    known = {game_of(env) for env in runs.envs}
    absent = [published.full_name(game) for game in published.GAMES if game not in known]
    others = [published.full_name(game) for game in published.GAMES if game in known and game not in drawn]
    limited = ["Atlantis with the frame limit" if name == "Atlantis" else name for name in others]
    lacks = {"no runs of": absent, "there are runs, but none of bdqn or ddqn on": limited}
    notes = (
        tag("p", f"Missing: {what} {', '.join(names)}.", class_="missing") for what, names in lacks.items() if names
    )
    return tag("div", tag("h3", "Learning curves of the 15 games"), charts(list(drawn.values())), *notes)


def _figure(title: str, lacks: str, drawn: Sequence[Html]) -> Html:
    """Charts under a heading; without any, what would fill it."""
    body = charts(drawn) if drawn else tag("p", f"Missing: {lacks}", class_="missing")
    return tag("div", tag("h3", title), body)


def _variants(
    runs: Runs, rng: np.random.Generator, title: str, lacks: str, records: Mapping[str, Sequence[Record]]
) -> Html:
    """A figure with a chart per environment."""
    drawn = [
        line_chart(f"{title.split()[0].lower()}-{i}", env, _lines(runs, mine, rng), "return")
        for i, (env, mine) in enumerate(records.items())
    ]
    return _figure(title, lacks, drawn)


def figures(runs: Runs, rng: np.random.Generator) -> list[Html]:
    """The paper's figures as far as our runs go, and its drawings."""
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


def _with_two_rates(records: Iterable[Record]) -> bool:
    rates = {r.group: setting_of(r, "learning_rate") for r in records if r.agent == "ddqn"}
    return len(set(rates.values()) - {None}) > 1


def _repeated(runs: Runs, atlantis: Mapping[str, Sequence[Record]]) -> Html:
    """Atlantis again and again: every seed is a line."""
    drawn = []
    for i, (title, records) in enumerate(atlantis.items()):
        mine = [r for r in records if r.agent == "bdqn"]
        lines = [Series(r.group, colour_of(runs, r.group), r.step, r.curve, thin=True) for r in mine]
        drawn += [line_chart(f"repeated-{i}", title, lines, "return")] if lines else []
    return _figure("Repeated runs of Atlantis", "no runs of bdqn on Atlantis.", drawn)


def paper_section(runs: Runs, made: Sequence[Grid], rng: np.random.Generator) -> Html:
    return section(
        "The paper beside our runs",
        *(table.html() for table in made),
        *figures(runs, rng),
        lead="Tables and figures of arXiv:1802.04412. Tinted columns are ours. The paper counts interactions, we count "
        "decisions; one run per game in the paper, ours over seeds.",
    )
