"""The paper's tables: cells as printed, and what follows from them, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bdqn.config.resolve import configure
from bdqn.report.paper import consistency, published
from bdqn.report.paper.published import Cell


@pytest.mark.parametrize(
    ("text", "value", "rounding"),
    [("5.52k", 5520, 5), ("3.24M", 3.24e6, 5e3), ("11.0", 11, 0.05), ("-20.7", -20.7, 0.05), ("788%", 7.88, 0.005)],
)
def test_a_cell_says_a_number_and_how_far_it_may_have_been_rounded(text: str, value: float, rounding: float) -> None:
    assert Cell(text).value == pytest.approx(value)
    assert Cell(text).rounding == pytest.approx(rounding)


def test_never_is_not_a_number() -> None:
    assert math.isnan(published.SCORES.rows["Alien"]["SC"].value)


def test_the_tables_are_whole() -> None:
    assert [len(t.rows) for t in (published.SCORES, published.RATIOS, published.DROPOUT)] == [15, 15, 4]
    assert [len(t.columns) for t in (published.SCORES, published.RATIOS, published.DROPOUT)] == [12, 7, 6]
    assert [published.full_name(game) for game in published.GAMES] == list(published.RATIOS.rows)
    for human in published.HUMAN.values():
        assert set(human) == set(published.GAMES)


def test_cells_read_in_the_paper() -> None:
    assert published.SCORES.rows["Atlantis"]["BDQN"] == Cell("3.24M")
    assert published.SCORES.rows["Amidar"]["BDQN"] == Cell("5.52k", bold=True)
    assert [n for n, c in published.SCORES.rows["Pong"].items() if c.bold] == ["BDQN", "DDQN+", "NoisyNet"]
    assert published.RATIOS.rows["Asteroids"]["AuPPr"].text == "680%"
    assert published.DROPOUT.rows["Pong"]["Dropout-DDQN"].value == -18
    assert published.LATER_HUMAN["Pong"] == 14.6
    assert published.SCORES.rows["Pong"]["Human"].text == "9.3"


def test_the_preset_has_the_hyper_parameters_of_the_paper() -> None:
    values = configure("bdqn", "atari", "paper").values
    for symbol, (_, name, value) in published.HYPERPARAMETERS.items():
        assert values[name] == value, symbol


def test_ratios_follow_from_the_scores() -> None:
    assert published.ratio("Atlantis", "BDQN/DDQN") == pytest.approx(3_240_000 / 39_700)
    assert published.percent(published.ratio("Atlantis", "BDQN/DDQN")) == "8161%"
    low, high = published.ratio_range("Alien", "BDQN/DDQN")  # 3k is 2.5k to 3.5k, 2.9k is 2.85k to 2.95k
    assert (low, high) == pytest.approx((2500 / 2950, 3500 / 2850))


def test_disagreements_are_those_worked_out_by_hand() -> None:
    found = {check.where: check for check in consistency.disagreements()}
    atlantis = found["Table 3, Atlantis, BDQN/DDQN"]
    assert (atlantis.printed, atlantis.recomputed) == ("80604%", "8161%")
    assert found["Table 3, Atlantis, BDQN/DDQN+"].recomputed == "5003%"  # 3240 / 64.76
    assert found["Table 3, BattleZone, BDQN/DDQN+"].recomputed == "264%"  # 65.2 / 24.7
    derived = [where for where in found if where.startswith("Table 3")]
    assert len(derived) == 3, "all other ratios are rounded or cut, and Tables 2 and 3 agree in what both print"
    assert not published.follows("BattleZone", "BDQN/DDQN+")
    assert published.follows("Amidar", "BDQN/DDQN+"), "788% is cut: 5.52 / 0.7 is 788.6%"
    assert found["Table 2, DemonAttack, bold"].recomputed == "Bootstrap"
    assert found["Table 2, BankHeist, bold"].recomputed == "CTS"
    assert "Table 2, Enduro, SC and SC+" in found  # 0.31k beaten after 0.82M, 0.32k after 0.8M
    jump = found["Experiments: BDQN jumps on Atlantis around"]
    assert (jump.printed, jump.recomputed) == ("20M", "15M")  # the text, and the caption of the repeated runs
    assert "no, on 3 of 4 games" in found["Experiments: dropout falls short of a random policy"].recomputed


def test_headline_claims_are_worked_out_again() -> None:
    median, maximum, area, interactions = consistency.claims()
    assert (median.recomputed, median.agrees) == ("292%", True)  # DemonAttack, the eighth of fifteen
    assert (maximum.recomputed, maximum.agrees) == ("14500%", False)  # ChopperCommand: 72.5k / 0.5k
    assert (area.recomputed, area.agrees) == ("282% ± 165%", False)
    assert "standard error of that mean is 43%" in area.remark
    assert "as an improvement it is 192%" in median.remark
    assert "as an improvement it is 182%" in area.remark
    assert (interactions.recomputed, interactions.agrees) == ("6 of 15 games within 5M, 8 within 6M", True)
    assert "half of the games need at most 5.7M" in interactions.remark  # Asterix, the eighth of fifteen
    assert "on Amidar, Centipede, Enduro DDQN is above DDQN+" in interactions.remark


@pytest.mark.parametrize("needed", [["6.1M"] * 15, ["3.9M"] * 15, ["-", "5M"] * 7 + ["-"]])
def test_that_half_of_the_games_need_5m_is_read_off_the_table(
    monkeypatch: pytest.MonkeyPatch, needed: list[str]
) -> None:
    table = zip(published.SCORES.rows.items(), needed, strict=True)
    rows = {game: {**cells, "SC+": Cell(text)} for (game, cells), text in table}
    monkeypatch.setattr(published, "SCORES", replace(published.SCORES, rows=rows))
    assert not consistency.claims()[-1].agrees


def test_a_ratio_needs_positive_scores() -> None:
    assert published.score_ratio(6.0, 3.0) == 2.0
    assert (published.shift_of("Pong"), published.shift_of("Enduro")) == (21.0, 0.0)
    assert math.isnan(published.score_ratio(1.0, -1.0))


def test_sample_complexity_counts_to_the_first_window_above_the_score() -> None:
    step, returns = np.array([10.0, 20.0, 30.0, 40.0]), np.array([0.0, 4.0, 4.0, 9.0])
    assert published.decisions_to_beat(step, returns, 3.9, window=2) == 30  # means of two: 2, 4, 6.5
    assert published.decisions_to_beat(step, returns, 4.0, window=2) == 40  # equalled is not beaten
    assert math.isnan(published.decisions_to_beat(step, returns, 7.0, window=2))
    assert math.isnan(published.decisions_to_beat(step, returns, 0.0, window=5)), "there are not five episodes"
