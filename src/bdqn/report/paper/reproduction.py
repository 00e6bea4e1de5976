"""The paper's tables, with our cells beside the printed ones. Cells without runs say that they are missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from bdqn.agents.bdqn import Settings
from bdqn.config.settings import ReadWith
from bdqn.report.compare import caution
from bdqn.report.grid import MISSING, Cell, Column, Grid, grid
from bdqn.report.html import Html
from bdqn.report.paper import consistency, published
from bdqn.report.paper.curves import figures
from bdqn.report.paper.our_runs import (
    AGENTS,
    DROPOUT_AGENTS,
    FILLING,
    OF_PAPER,
    Ours,
    at_greedy_epsilon,
    ours_by_game,
    setting_of,
)
from bdqn.report.runs import RunRecord, Runs, grouped
from bdqn.report.summary import section, show

# Settings of Table 5 that have no effect without these values of other settings.
ALSO_READ_WITH: ReadWith = {
    "sample_interval": ("acting", "thompson"),
    "posterior_batch_size": ("posterior_data", "replay"),
}
INSTEAD = {"episode": "per episode", "inverse-gamma": "learned"}  # shown instead of an unused number


def score_table(ours: Mapping[str, Ours], runs: Runs) -> Grid:
    """Table 2, with ours."""
    rows = {}
    for game, cells in published.SCORES.rows.items():
        values = _scores(ours[game], AGENTS) | {
            "SC": ours[game].complexity("Human"),
            "SC+": ours[game].complexity("DDQN+"),
        }
        rows[game] = _beside(cells, ours=values) | {"Human, later": _number(published.LATER_HUMAN[game], show)}
    note = (
        "Ours: mean over seeds of the last 100 episodes (95 % bootstrap interval; seeds; episodes, if fewer ended), "
        "after the decisions in column Step, which all runs of the environment have taken. DDQN+ is our DDQN at "
        "evaluation epsilon 0.001 (bdqn evaluate RUNS --epsilon 0.001 --keep). SC and SC+ are the decisions until our "
        "BDQN beats the paper's Human and DDQN+, counted over whole runs. A dash: never reached. Pixel and Reactor "
        "are not implemented here. The last column contains the human scores of Wang et al. (2016), which "
        "later papers use. Bold: as in the paper."
    )
    return _paired("paper-table-2", published.SCORES, rows, f"{note} {caution(runs.records)}".strip())


def ratio_table(ours: Mapping[str, Ours]) -> Grid:
    """Table 3, with ours, and with the ratios recomputed from the paper's own scores."""
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
        "Recomputed: from the scores of Table 2. Rows are marked if a printed ratio does not follow from them. Ours: "
        "from our scores (95 % bootstrap interval; seeds), which must be positive. Pong's areas are shifted by 21, its "
        "scores are not, as in the paper."
    )
    wrong = {i for i, game in enumerate(ours) if not all(published.follows(game, c) for c in published.RATIO_COLUMNS)}
    return replace(_paired("paper-table-3", published.RATIOS, rows, note), marked=frozenset(wrong))


def dropout_table(ours: Mapping[str, Ours]) -> Grid:
    """Table 4, with ours."""
    rows = {
        game: _beside(cells, ours=_scores(ours[game], DROPOUT_AGENTS)) for game, cells in published.DROPOUT.rows.items()
    }
    return _paired("paper-table-4", published.DROPOUT, rows, "Ours as in Table 2.")


def group_table(ours: Mapping[str, Ours]) -> Grid:
    """Which of our runs each column uses."""
    rows = []
    for column, agent in FILLING.items():
        records = chain.from_iterable(mine.of(agent) for mine in ours.values())
        made = grouped(records, lambda record: (record.group, _distinguishing(record)))
        lines = [[column, *made_of, ", ".join(grouped(mine, attrgetter("env")))] for made_of, mine in made.items()]
        rows += lines or [[column, MISSING, "-", "-"]]
    note = (
        "All cells of a game come from one environment: the first that has both bdqn and ddqn, otherwise the first "
        "that has one of them. There, all cells of an agent come from one group. For BDQN, groups with acting = "
        "thompson and last_layer = regression, as in the paper, take precedence. Among several, the group with the "
        "most games is used, then the first. DDQN+ uses the same runs as DDQN."
    )
    heading = ["column", "group", "settings", "environments"]
    return grid("paper-groups", "Groups in our columns", heading, rows, note)


def _distinguishing(record: RunRecord) -> str:
    """The settings that distinguish the paper's agent from others of its name."""
    known = {name: setting_of(record, name) for name in OF_PAPER.get(record.agent, {})}
    return ", ".join(f"{name} = {value or 'unknown'}" for name, value in known.items()) or "-"


def _scores(ours: Ours, agents: Mapping[str, str]) -> dict[str, Cell]:
    """Our cells in a table of scores."""
    scores = {column: ours.score(agent) for column, agent in agents.items()}
    return {**scores, "DDQN+": ours.score("ddqn", at_greedy_epsilon), "Step": ours.steps(agents.values())}


def _number(value: float, shown: Callable[[float], str]) -> Cell:
    return Cell(shown(value), value)


def _beside(cells: Mapping[str, published.Cell], **more: Mapping[str, Cell]) -> dict[str, Cell]:
    """The paper's cells by heading, each followed by the other kinds that exist."""
    row = {}
    for column, cell in cells.items():
        row[column] = Cell(cell.text, cell.value)
        row |= {f"{column} {kind}": values[column] for kind, values in more.items() if column in values}
    return row


def _column(title: str) -> Column:
    """A column of printed numbers, or of our estimates. Our decisions have no interval."""
    name = title.replace(",", "").replace(" ", "_")
    ours = title.endswith(" ours") and not title.startswith("Step")
    return Column.estimate(title, name, "seeds") if ours else Column(title, [name])


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
    """Table 5, with the settings of our Bayesian DQN."""
    runs = runs.with_details
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
    """A run's value of a numeric setting; if the run did not use it, what it did instead."""
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
    return grid("paper-table-1", "Table 1. What each exploration strategy uses", ["strategy", *columns], rows)


def check_table() -> Grid:
    """Printed numbers that do not follow from others in the paper."""
    rows = [[c.where, c.printed, c.recomputed, c.remark] for c in consistency.disagreements()]
    heading = ["where", "printed", "recomputed", "why"]
    note = "Derived cells and headline numbers, recomputed from the printed scores: these do not agree."
    return grid("paper-disagreements", "Where the paper disagrees with itself", heading, rows, note)


def claim_table() -> Grid:
    rows = [[c.where, c.printed, c.recomputed, "yes" if c.agrees else "no", c.remark] for c in consistency.claims()]
    heading = ["claim", "printed", "recomputed", "agrees", "remark"]
    return grid("paper-claims", "The headline claims, recomputed from the paper's own tables", heading, rows)


def tables(runs: Runs, rng: np.random.Generator) -> list[Grid]:
    """All tables of the paper, with ours."""
    seed = int(rng.integers(2**32))
    ours = ours_by_game(runs, seed)
    paired = [score_table(ours, runs), ratio_table(ours), dropout_table(ours), group_table(ours)]
    return [strategy_table(), *paired, hyperparameter_table(runs), claim_table(), check_table()]


def paper_section(runs: Runs, made: Sequence[Grid], rng: np.random.Generator) -> Html:
    return section(
        "The paper beside our runs",
        *(table.html() for table in made),
        *figures(runs, rng),
        lead="Tables and figures of arXiv:1802.04412. Tinted columns are ours. The paper counts interactions, and we "
        "count decisions. The paper has one run per game, and we average over seeds.",
    )
