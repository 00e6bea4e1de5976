"""The line of the log that says whether exploration is alive, and the warning where it came to rest too early."""

from __future__ import annotations

from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.runs.exploration import ExplorationLog, exploration_line, exploration_warning
from bdqn.runs.progress import Silent
from support.cli import SMALL

DEAD = {
    "explore/draw_departs": 0.0,
    "posterior/novelty": 0.0,
    "explore/bold_share": 1.0,
    "explore/bold_return": -200.0,
    "explore/modest_return": -200.0,
    "explore/segments": 0.0,
}


def test_agents_without_draws_have_no_line() -> None:
    assert exploration_line({"train/loss": 1.0}) is None


def test_the_line_says_what_departs_what_is_new_and_which_draws_act() -> None:
    line = exploration_line({**DEAD, "explore/draw_departs": 0.25, "posterior/novelty": 0.123})
    assert line == (
        "exploration is alive: draws depart from the mean in 25% of states; 12.3% of recent observations is new; "
        "bold draws act (bold ones return -200.0, modest ones return -200.0)"
    )
    assert str(exploration_line(DEAD)).startswith("exploration is at rest: draws depart from the mean in 0% of states")


@pytest.mark.parametrize(
    ("changed", "warns"),
    [
        ({}, True),
        ({"explore/segments": 300.0}, False),  # something was found: rest is what it should come to
        ({"posterior/novelty": 0.2}, False),
        ({"explore/draw_departs": 0.2}, False),
    ],
)
def test_it_warns_only_where_nothing_was_found_and_nothing_is_new(changed: dict[str, float], warns: bool) -> None:
    assert (exploration_warning({**DEAD, **changed}) is not None) == warns


def test_agents_that_act_without_draws_say_nothing_of_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--agent", "ucb", "--steps", "300", "--out", str(tmp_path / "run")]
    assert main(["train", "--env", "CartPole-v1", *SMALL, *arguments]) == 0
    assert "exploration is " not in capsys.readouterr().out


def test_it_warns_once(capsys: pytest.CaptureFixture[str]) -> None:
    log = ExplorationLog(100, 0)
    for now in range(1, 101):
        log.report(now, DEAD, Silent())
    assert capsys.readouterr().err.count("Exploration has come to rest") == 1


def test_a_run_says_it_ten_times(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--prior-features", "32", "--steps", "1000", "--out", str(tmp_path / "run")]
    assert main(["train", "--env", "bdqn/KeyDoor-v0", *SMALL, *arguments]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "exploration is " in line]
    assert len(lines) == 10
    assert lines[0].startswith("After 100 steps, exploration is alive: draws depart from the mean in ")
