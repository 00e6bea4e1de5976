"""Our runs as the paper's tables need them: which game a run plays, and which group fills a column."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean

import numpy as np

from bdqn.report import stats
from bdqn.report.charts import si
from bdqn.report.grid import DASH, MISSING, NO_RATIO, Cell
from bdqn.report.paper import published
from bdqn.report.runs import RunRecord, Runs, grouped
from bdqn.report.summary import fewer_episodes

GREEDY_EPSILON = 0.001  # evaluation epsilon of DDQN+
ID = re.compile(r"(?:ALE/)?(\w+?)(?:NoFrameskip|Deterministic)?-v\d+")
# Columns of Tables 2 and 4, and the agents that fill them.
AGENTS = {"BDQN": "bdqn", "DDQN": "ddqn", "Bootstrap": "bootstrapped", "NoisyNet": "noisy", "CTS": "dqn-cts"}
DROPOUT_AGENTS = {"BDQN": "bdqn", "DDQN": "ddqn", "Dropout-DDQN": "dropout", "Random": "random"}
FILLING = {**AGENTS, **DROPOUT_AGENTS}
# Settings that an agent needs to be the one of the paper.
OF_PAPER = {"bdqn": {"acting": "thompson", "last_layer": "regression"}}

Score = Callable[[RunRecord], float]
final: Score = attrgetter("final")


def game_of(env: str) -> str | None:
    """The paper's name for an environment's game; None if the paper does not have it."""
    match = ID.fullmatch(env)
    names = {published.full_name(game): game for game in published.GAMES}
    return names.get(match[1]) if match else None


def unlimited_atlantis(record: RunRecord) -> bool:
    """Whether this is Atlantis without the frame limit, which has its own figure in the paper."""
    in_force = str(record.meta.get("protocol"))  # the setting may be left to the protocol
    unlimited = record.settings.get("max_episode_frames") == 0 or "no frame limit" in in_force
    return unlimited and game_of(record.env) == "Atlantis"


def at_greedy_epsilon(record: RunRecord) -> float:
    """DDQN+: the evaluation at epsilon 0.001; NaN if there is none."""
    return record.evaluated_at(GREEDY_EPSILON)


def setting_of(record: RunRecord, name: str) -> str | None:
    """A run's setting as text; for stored results, as their group's name gives it. None if it is unknown."""
    named = dict(word.split("=", 1) for word in record.group.split() if "=" in word)
    found = named.get(name) if record.kept else record.settings.get(name)
    return None if found is None else str(found)


def unlike_paper(record: RunRecord) -> bool:
    """Whether the agent is known to differ from the paper's agent of that name."""
    wanted = OF_PAPER.get(record.agent, {})
    return any(setting_of(record, name) not in (None, value) for name, value in wanted.items())


@dataclass(frozen=True)
class Ours:
    """Our runs of one game, by agent: from one environment, and from one group per agent."""

    game: str
    by_agent: Mapping[str, Sequence[RunRecord]]
    seed: int  # of the bootstrap: equal scores have equal intervals in every table

    def of(self, agent: str) -> Sequence[RunRecord]:
        return self.by_agent.get(agent, ())

    def by_seed(self, agent: str, score: Score = final) -> dict[int, float]:
        """Scores by seed; empty unless all of them are known."""
        found = {record.seed: score(record) for record in self.of(agent)}
        return found if np.isfinite(list(found.values())).all() else {}

    def score(self, agent: str, score: Score = final) -> Cell:
        scores = self.by_seed(agent, score)
        short = fewer_episodes(self.of(agent)) if score is final else ""  # evaluations play their own episodes
        return self._over_seeds(scores, short) if scores else Cell(MISSING)

    def ratio(self, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Cell:
        """Ratio of two means over seeds. An interval needs several seeds of both, and positive scores."""
        if not ours or not theirs:
            return Cell(MISSING)
        value = published.score_ratio(fmean(ours.values()), fmean(theirs.values()))
        if np.isnan(value):
            return Cell(NO_RATIO)
        interval = None
        if min(len(ours), len(theirs)) > 1 and min(*ours.values(), *theirs.values()) > 0:
            interval = stats.paired_ratio({self.game: ours}, {self.game: theirs}, self._rng()).interval
        return _estimate(value, interval, [len(ours), len(theirs)], published.percent)

    def area(self, record: RunRecord) -> float:
        """Area under the learning curve, shifted as for AuPPr."""
        return record.area + published.shift_of(self.game)

    def complexity(self, column: str) -> Cell:
        """Decisions until our BDQN beats a score of the paper; "-" if no seed does."""
        if any(record.kept for record in self.of("bdqn")):
            return Cell(MISSING)  # stored results contain no episodes
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
        """The decisions that scores refer to: those that all runs of an environment have taken."""
        ends = sorted({float(record.step[-1]) for agent in agents for record in self.of(agent)})
        return Cell(" / ".join(map(si, ends)), ends[0]) if ends else Cell(MISSING)

    def _over_seeds(self, scores: Mapping[int, float], note: str = "") -> Cell:
        values = np.array(list(scores.values()))
        interval = stats.bootstrap(stats.mean, {self.game: values}, self._rng()) if len(values) > 1 else None
        return _estimate(float(values.mean()), interval, [len(values)], si, note)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def ours_by_game(runs: Runs, seed: int) -> dict[str, Ours]:
    """Our runs of every game. Each agent contributes one group, if possible the same on all games.

    Groups that match the paper's agent take precedence, then the group with the most games, then the first.
    """
    usual = [r for r in runs.records if r.agent in FILLING.values() and not unlimited_atlantis(r)]
    played = {game: _in_one_env([r for r in usual if game_of(r.env) == game]) for game in published.GAMES}
    games = Counter(group for records in played.values() for group in {r.group for r in records})

    def chosen(records: Sequence[RunRecord]) -> Sequence[RunRecord]:
        groups = grouped(records, attrgetter("group"))
        return groups[min(groups, key=lambda group: (any(map(unlike_paper, groups[group])), -games[group]))]

    agents = {game: grouped(records, attrgetter("agent")) for game, records in played.items()}
    return {
        game: Ours(game, {agent: chosen(records) for agent, records in mine.items()}, seed)
        for game, mine in agents.items()
    }


def _in_one_env(records: Sequence[RunRecord]) -> Sequence[RunRecord]:
    """Runs of the first environment with both bdqn and ddqn; otherwise of the first with one of them."""

    def sides(mine: Sequence[RunRecord]) -> int:
        return len({"bdqn", "ddqn"} & {record.agent for record in mine})

    return max(grouped(records, attrgetter("env")).values(), key=sides, default=[])


def _estimate(
    value: float, interval: stats.Interval | None, seeds: Sequence[int], shown: Callable[[float], str], note: str = ""
) -> Cell:
    """An estimate with its interval, the number of seeds (of both sides, if they differ) and a note."""
    low, high = map(float, interval or (np.nan, np.nan))
    ends = [f"{shown(low)} to {shown(high)}"] if interval else []
    numbers = list(dict.fromkeys(seeds))
    counted = f"{' and '.join(map(str, numbers))} seed{'s' * (numbers != [1])}"
    text = f"{shown(value)} ({'; '.join(filter(None, [*ends, counted, note]))})"
    return Cell(text, value, low, high, min(seeds))
