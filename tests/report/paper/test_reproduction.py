"""The paper's tables and figures beside our runs: what a cell stands for, and what is said where there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bdqn.config.resolve import configure
from bdqn.envs.settings import PROTOCOLS
from bdqn.report.grid import Grid
from bdqn.report.paper.curves import figures, game_curves
from bdqn.report.paper.reproduction import tables
from bdqn.report.runs import Runs, read_runs
from support.pages import write_evaluation, write_run

Row = dict[str, str]


class Shelf:
    """Runs that are written one after another, and read together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: list[Path] = []

    def add(self, agent: str, game: str, seed: int, returns: Sequence[float], **settings: Any) -> Path:
        return self.add_on(f"ALE/{game}-v5", agent, seed, returns, **settings)

    def add_on(self, env: str, agent: str, seed: int, returns: Sequence[float], **settings: Any) -> Path:
        path = self.folder / str(len(self.paths))
        self.paths.append(write_run(path, agent, env, seed, returns, settings=settings))
        return path

    def keep(self, scores: Mapping[str, float]) -> None:
        """What bdqn compare keeps of a sweep on Pong with one seed per group."""
        path = self.folder / str(len(self.paths))
        path.mkdir()
        rows = [f"ALE/Pong-v5,{group},0,1200,{score},{score}," for group, score in scores.items()]
        points = [f"ALE/Pong-v5,{group},0,{step},{score}" for group, score in scores.items() for step in (600, 1200)]
        (path / "runs.csv").write_text("\n".join(["env,group,seed,decisions,final,area,evaluation", *rows]) + "\n")
        (path / "curves.csv").write_text("\n".join(["env,group,seed,step,return", *points]) + "\n")
        self.paths.append(path)

    @property
    def runs(self) -> Runs:
        return read_runs(self.paths)

    def grid(self, number: int) -> Grid:
        return self.named(f"paper-table-{number}")

    def named(self, name: str) -> Grid:
        return next(grid for grid in tables(self.runs, np.random.default_rng(0)) if grid.name == name)

    def made_of(self, column: str) -> list[tuple[str, ...]]:
        """Group, settings and environments that the page says a column is made of."""
        return [row[1:] for row in self.named("paper-groups").rows if row[0] == column]

    def table(self, number: int) -> dict[str, Row]:
        """A table of the paper by row and heading."""
        made = self.grid(number)
        return {row[0]: dict(zip(made.heading, row, strict=True)) for row in made.rows}

    def marked(self, number: int) -> set[str]:
        made = self.grid(number)
        return {made.rows[i][0] for i in made.marked}

    def figure(self, title: str) -> str:
        return next(f for f in figures(self.runs, np.random.default_rng(0)) if f"<h3>{title}</h3>" in f)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


# --- scores -------------------------------------------------------------------------------------------------------


def test_a_score_has_an_interval_and_the_number_of_its_seeds(shelf: Shelf) -> None:
    for seed, score in enumerate((1000.0, 3000.0)):
        shelf.add("bdqn", "Enduro", seed, [score] * 120)
    shelf.add("ddqn", "Enduro", 0, [500.0] * 120)
    scores, ratios, dropout = shelf.table(2)["Enduro"], shelf.table(3)["Enduro"], shelf.table(4)["Enduro"]
    assert scores["BDQN ours"] == "2k (1k to 3k; 2 seeds)"
    assert scores["DDQN ours"] == "500 (1 seed)"
    assert scores["DDQN+ ours"] == "missing"
    assert dropout["BDQN ours"] == scores["BDQN ours"], "one score, one interval"
    assert ratios["BDQN/DDQN ours"] == "400% (2 and 1 seeds)", "a single seed has no interval"
    assert ratios["BDQN/Human ours"] == "645% (323% to 968%; 2 seeds)"  # over 310


@pytest.mark.parametrize(("seeds", "said"), [(1, False), (2, True), (9, True), (10, False)])
def test_what_intervals_of_few_seeds_are_worth_is_said_once(shelf: Shelf, seeds: int, said: bool) -> None:
    for seed in range(seeds):
        shelf.add("bdqn", "Enduro", seed, [1000.0] * 120)
    notes = [table.note for table in tables(shelf.runs, np.random.default_rng(0))]
    assert sum("few seeds are too narrow" in note for note in notes) == said


def test_a_score_over_fewer_episodes_than_the_papers_says_so(shelf: Shelf) -> None:
    shelf.add("bdqn", "Enduro", 0, [1000.0] * 40)
    path = shelf.add("ddqn", "Enduro", 0, [500.0] * 120)  # compared over as many decisions as the other
    write_evaluation(path, 0.001, 600.0, 400)
    shelf.add("ddqn", "Pong", 0, [5.0] * 100)
    enduro = shelf.table(2)["Enduro"]
    assert [enduro[f"{name} ours"] for name in ("BDQN", "DDQN", "DDQN+")] == [
        "1k (1 seed; 40 episodes)",
        "500 (1 seed; 40 episodes)",
        "600 (1 seed)",  # of an evaluation, which has its own episodes
    ]
    assert shelf.table(4)["Enduro"]["BDQN ours"] == enduro["BDQN ours"]
    assert shelf.table(2)["Pong"]["DDQN ours"] == "5 (1 seed)"


def test_the_same_scores_have_the_same_interval_in_every_table(shelf: Shelf) -> None:
    for seed in range(7):
        shelf.add("bdqn", "Enduro", seed, [100.0 * 1.7**seed] * 120)
    assert shelf.table(2)["Enduro"]["BDQN ours"] == shelf.table(4)["Enduro"]["BDQN ours"]


def test_seeds_that_never_beat_a_score_are_counted(shelf: Shelf) -> None:
    for seed, score in enumerate((1000.0, 3000.0, 0.0)):
        shelf.add("bdqn", "Enduro", seed, [score] * 120)
    assert shelf.table(2)["Enduro"]["SC ours"] == "1k (2 of 3 seeds)"


def test_scores_without_a_ratio_are_not_missing(shelf: Shelf) -> None:
    for agent, score in (("bdqn", -15.0), ("ddqn", -20.0)):
        write_evaluation(shelf.add(agent, "Pong", 0, [score] * 120), 0.001, 0.0, 1200)
    shelf.add("bdqn", "Enduro", 0, [5.0] * 120)
    pong, enduro = shelf.table(3)["Pong"], shelf.table(3)["Enduro"]
    columns = ("BDQN/DDQN ours", "BDQN/DDQN+ ours", "BDQN/Human ours")
    assert [pong[column] for column in columns] == ["no ratio"] * 3
    assert '<td class="n ours missing">no ratio</td>' in shelf.grid(3).html(), "aligned as numbers are"
    assert pong["AuPPr ours"] == "600% (1 seed)"  # 6 / 1 after the shift
    assert [enduro[column] for column in columns] == ["missing", "missing", "2% (1 seed)"]  # 5 / 310


def test_a_ratio_of_which_a_seed_is_not_positive_has_no_interval(shelf: Shelf) -> None:
    for seed, score in enumerate((-2.0, 8.0)):
        shelf.add("bdqn", "Pong", seed, [score] * 120)
        shelf.add("ddqn", "Pong", seed, [1.0] * 120)
    assert shelf.table(3)["Pong"]["BDQN/DDQN ours"] == "300% (2 seeds)"


# --- which runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [False, True])
def test_scores_of_different_environments_are_not_compared(shelf: Shelf, backwards: bool) -> None:
    shelf.add_on("PongNoFrameskip-v4", "ddqn", 0, [10.0] * 120)
    shelf.add_on("PongNoFrameskip-v4", "noisy", 0, [7.0] * 120)
    shelf.add_on("ALE/Pong-v5", "bdqn", 0, [16.0] * 120)
    shelf.add_on("ALE/Pong-v5", "ddqn", 0, [2.0] * 120)
    if backwards:
        shelf.paths.reverse()
    assert shelf.table(3)["Pong"]["BDQN/DDQN ours"] == "800% (1 seed)"
    scores = shelf.table(2)["Pong"]
    assert [scores[f"{name} ours"] for name in ("BDQN", "DDQN", "NoisyNet")] == ["16 (1 seed)", "2 (1 seed)", "missing"]
    assert shelf.made_of("DDQN") == [("ddqn", "-", "ALE/Pong-v5")]
    assert ends(game_curves(shelf.runs, np.random.default_rng(0))) == [
        [f"{name} (1 seed): {score}" for name, score in (("bdqn", 16), ("ddqn", 2))]
    ]


def test_an_environment_with_one_side_of_a_ratio_comes_before_others(shelf: Shelf) -> None:
    shelf.add_on("PongNoFrameskip-v4", "noisy", 0, [7.0] * 120)
    shelf.add_on("ALE/Pong-v5", "bdqn", 0, [16.0] * 120)
    assert shelf.table(2)["Pong"]["BDQN ours"] == "16 (1 seed)"


@pytest.mark.parametrize(
    ("column", "agent"), [("Bootstrap", "bootstrapped"), ("NoisyNet", "noisy"), ("CTS", "dqn-cts")]
)
def test_a_rival_stands_beside_its_published_score(shelf: Shelf, column: str, agent: str) -> None:
    shelf.add(agent, "Pong", 0, [7.0] * 120)
    assert shelf.table(2)["Pong"][f"{column} ours"] == "7 (1 seed)"


@pytest.mark.parametrize(
    ("setting", "other", "papers"),
    [("acting", "epsilon-greedy", "thompson"), ("last_layer", "gradient", "regression")],
)
def test_bdqn_is_the_group_that_does_as_the_papers(shelf: Shelf, setting: str, other: str, papers: str) -> None:
    for score, value in ((1.0, other), (8.0, papers)):
        shelf.add("bdqn", "Pong", 0, [score] * 120, **of_paper(**{setting: value}))
    shelf.add("bdqn", "Enduro", 0, [300.0] * 120, **of_paper(**{setting: other}))
    assert shelf.table(2)["Pong"]["BDQN ours"] == "8 (1 seed)"
    used = {"acting": "thompson", "last_layer": "regression"}
    told = [", ".join(f"{k} = {v}" for k, v in {**used, setting: value}.items()) for value in (other, papers)]
    assert shelf.made_of("BDQN") == [
        (f"bdqn {setting}={other}", told[0], "ALE/Enduro-v5"),  # there is no other
        (f"bdqn {setting}={papers}", told[1], "ALE/Pong-v5"),
    ]


def test_a_column_is_of_one_group_on_all_games_where_it_can_be(shelf: Shelf) -> None:
    shelf.add("ddqn", "Pong", 0, [1.0] * 120, gamma=0.9)
    for game in ("Pong", "Enduro"):
        shelf.add("ddqn", game, 0, [8.0] * 120, gamma=0.99)
    assert shelf.made_of("DDQN") == [("ddqn gamma=0.99", "-", "ALE/Enduro-v5, ALE/Pong-v5")]
    assert shelf.made_of("Random") == [("missing", "-", "-")]


def test_kept_results_are_what_their_groups_are_named(shelf: Shelf) -> None:
    shelf.keep({"bdqn acting=epsilon-greedy": 1.0, "bdqn": 8.0})
    assert shelf.table(2)["Pong"]["BDQN ours"] == "8 (1 seed)"
    assert shelf.made_of("BDQN") == [("bdqn", "acting = unknown, last_layer = unknown", "ALE/Pong-v5")]


# --- decisions ----------------------------------------------------------------------------------------------------


def test_steps_are_the_decisions_that_scores_stand_for(shelf: Shelf) -> None:
    shelf.add("bdqn", "Pong", 0, [1.0] * 300)
    shelf.add("ddqn", "Pong", 0, [1.0] * 300)
    shelf.add("boltzmann", "Pong", 0, [1.0] * 120)  # in no table, but compared with all others
    assert [shelf.table(number)["Pong"][name] for number, name in ((2, "Step ours"), (3, "Steps ours"))] == ["1.2k"] * 2


def test_steps_need_no_run_of_bayesian_dqn(shelf: Shelf) -> None:
    for agent in ("dropout", "random"):
        shelf.add(agent, "Pong", 0, [-20.0] * 120)
    assert shelf.table(4)["Pong"]["Step ours"] == "1.2k"
    assert shelf.table(2)["Pong"]["Step ours"] == "missing", "none of its agents has run"


# --- the paper's own arithmetic -----------------------------------------------------------------------------------


def test_ratios_of_the_papers_scores_stand_beside_those_it_prints(shelf: Shelf) -> None:
    shelf.add("bdqn", "Pong", 0, [1.0] * 120)
    atlantis, pong = shelf.table(3)["Atlantis"], shelf.table(3)["Pong"]
    assert [atlantis[name] for name in ("BDQN/DDQN", "BDQN/DDQN recomputed")] == ["80604%", "8161%"]
    assert [pong[name] for name in ("BDQN/Human", "BDQN/Human recomputed")] == ["226%", "226%"]
    assert shelf.marked(3) == {"Atlantis", "BattleZone"}


def test_what_the_paper_prints_in_bold_is_bold(shelf: Shelf) -> None:
    shelf.add("bdqn", "Pong", 0, [1.0] * 120)
    made = shelf.grid(2)
    bold = {(made.rows[row][0], made.heading[column]) for row, column in made.bold}
    assert {name for game, name in bold if game == "Pong"} == {"BDQN", "DDQN+", "NoisyNet"}
    assert len(bold) == 17  # one per game, and two more of Pong's
    assert '<td class="n"><strong>5.52k</strong></td>' in made.html()


# --- hyper-parameters ---------------------------------------------------------------------------------------------


def of_paper(**changes: Any) -> dict[str, Any]:
    values: Mapping[str, Any] = configure("bdqn", "atari", "paper").values
    return {**values, **changes}


def test_the_papers_settings_do_not_differ_from_the_papers(shelf: Shelf) -> None:
    shelf.add("bdqn", "Pong", 0, [1.0] * 120, **of_paper())
    assert shelf.table(5)["T^S"]["bdqn"] == "1000"
    assert shelf.marked(5) == set()


@pytest.mark.parametrize(
    ("symbol", "switch", "value", "shown"),
    [
        ("T^S", "redraw", "episode", "per episode"),
        ("T^S", "acting", "ucb", "acting = ucb"),
        ("σ_ε", "noise", "inverse-gamma", "learned"),
        ("B", "posterior_data", "minibatches", "posterior_data = minibatches"),
    ],
)
def test_a_setting_that_was_not_read_is_not_shown(
    shelf: Shelf, symbol: str, switch: str, value: str, shown: str
) -> None:
    shelf.add("bdqn", "Pong", 0, [1.0] * 120, **of_paper(**{switch: value}))
    assert shelf.table(5)[symbol]["bdqn"] == shown
    assert shelf.marked(5) == {symbol}


def test_a_setting_that_a_run_does_not_name_is_not_known(shelf: Shelf) -> None:
    shelf.add("bdqn", "Pong", 0, [1.0] * 120)
    assert shelf.table(5)["lr"]["bdqn"] == "-"
    assert shelf.marked(5) == set()


# --- figures ------------------------------------------------------------------------------------------------------


def test_a_game_of_other_agents_is_named(shelf: Shelf) -> None:
    shelf.add("bdqn", "Pong", 0, [1.0] * 120)
    shelf.add("noisy", "ChopperCommand", 0, [1.0] * 120)
    shelf.add("ddqn", "Atlantis", 0, [1.0] * 120, max_episode_frames=0)
    drawn = game_curves(shelf.runs, np.random.default_rng(0))
    assert "Missing: no runs of Amidar, " in drawn
    others = "Atlantis with the frame limit, ChopperCommand"
    assert f"Missing: no runs of bdqn or ddqn, only of other agents, on {others}." in drawn
    assert "Pong" not in drawn.partition("Missing")[2]


def test_atlantis_without_the_limit_stands_apart(shelf: Shelf) -> None:
    """Seeds of one agent, some without the limit: neither a cell nor a line mixes them."""
    for seed, (score, frames) in enumerate([(9000.0, 0), (100.0, 400_000), (300.0, 400_000), (7000.0, 0)]):
        shelf.add("bdqn", "Atlantis", seed, [score] * 120, max_episode_frames=frames)
    assert shelf.table(2)["Atlantis"]["BDQN ours"] == "200 (100 to 300; 2 seeds)"
    assert ends(shelf.figure("Learning curves of the 15 games")) == [["bdqn max_episode_frames=400000 (2 seeds): 200"]]
    assert ends(shelf.figure("Unlimited Atlantis")) == [["bdqn max_episode_frames=0 (2 seeds): 8k"]]
    _, limited, unlimited = shelf.figure("Repeated runs of Atlantis").split("<figcaption>")
    assert [limited.count("line c1 thin"), unlimited.count("line c0 thin")] == [2, 2]
    assert "no frame limit" in unlimited


def test_a_protocol_without_a_limit_is_without_it(shelf: Shelf) -> None:
    for protocol in ("dqn", "nature"):
        for game in ("Atlantis", "Pong"):
            path = shelf.add("bdqn", game, len(shelf.paths), [100.0] * 120, protocol=protocol)
            (path / "meta.json").write_text(json.dumps({"protocol": PROTOCOLS[protocol].describe()}))
    assert shelf.table(2)["Atlantis"]["BDQN ours"] == "100 (1 seed)"
    assert shelf.table(2)["Pong"]["BDQN ours"] == "100 (1 seed)", "other settings are another group"


@pytest.mark.parametrize(("rates", "missing"), [(("0.00025", "0.0025"), False), (("0.0025",), True)])
def test_learning_rates_of_kept_results_are_those_they_are_named_after(
    shelf: Shelf, rates: Sequence[str], missing: bool
) -> None:
    shelf.keep({"ddqn": 0.0, **{f"ddqn learning_rate={rate}": 1.0 for rate in rates}})
    figure = shelf.figure("Learning rate and DDQN")
    assert ("Missing: no environment has ddqn with two learning rates." in figure) == missing
    assert figure.count('class="line') == (0 if missing else 3)


@pytest.mark.parametrize("title", ["Draws around", "Thompson sampling, epsilon-greedy", "Safety"])
def test_drawings_say_whose_numbers_they_show(shelf: Shelf, title: str) -> None:
    shelf.add("bdqn", "Pong", 0, [1.0] * 120)
    drawn = next(f for f in figures(shelf.runs, np.random.default_rng(0)) if f"<h3>{title}" in f)
    assert "the numbers are ours" in drawn


def test_without_runs_figures_say_what_would_fill_them(shelf: Shelf) -> None:
    shelf.add("ddqn", "Atlantis", 0, [1.0] * 120)
    assert "Missing: no runs of Atlantis with max_episode_frames = 0." in shelf.figure("Unlimited Atlantis")
    assert "Missing: no runs of bdqn on Atlantis." in shelf.figure("Repeated runs of Atlantis")


def ends(figure: str) -> list[list[str]]:
    """Where the curves of each of its charts end, as the reader can read it off."""
    parts = figure.split('type="application/json">')[1:]
    contents = [json.loads(part.partition("</script>")[0]) for part in parts]
    return [[f"{line['name']}: {line['y'][-1]}" for line in content["series"]] for content in contents]
