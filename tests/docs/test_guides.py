"""The snippets and commands of docs/reading-the-posterior.md and docs/comparing-agents.md, executed as they stand."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bdqn.cli import main
from bdqn.sweep.plan import read_sweep

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"-?\d+\.\d+")


def page(name: str) -> str:
    return (DOCS / name).read_text()


def blocks(text: str, language: str) -> list[str]:
    """Those of one language, or without any."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language]


def numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]


def test_the_posteriors_page_prints_what_it_shows_and_its_claims_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(DOCS.parent)  # a clone, with the agents to download
    text = page("reading-the-posterior.md")
    names: dict[str, Any] = {}
    for snippet in blocks(text, "python"):
        exec(compile(snippet, "docs/reading-the-posterior.md", "exec"), names)
    printed, shown = capsys.readouterr().out, "".join(blocks(text, ""))
    assert NUMBER.sub("", printed).split() == NUMBER.sub("", shown).split()
    np.testing.assert_allclose(numbers(printed), numbers(shown), rtol=0.01, atol=0.05)

    learner, env = names["learner"], names["env"]
    assert env.spec.max_episode_steps == 500
    gamma = learner.configuration.training.gamma
    assert (1 - gamma**500) / (1 - gamma) == pytest.approx(99.3, abs=0.05)
    low, high = learner.q_posterior(names["upright"]).interval()
    assert low[0] < 99.3 < high[0]
    rewards, over = 0.0, False
    while not over:  # from where the pole cannot be saved
        _, reward, over, _, _ = env.step(0)
        rewards += reward
    assert rewards == 2
    assert names["found"].returns.spread == "calibrated"
    assert ((names["found"].degree >= 0) & (names["found"].degree <= 1)).all()


def test_the_sweep_of_the_page_on_comparing_is_valid(tmp_path: Path) -> None:
    (file,) = blocks(page("comparing-agents.md"), "toml")
    (tmp_path / "sweep.toml").write_text(file)
    sweep = read_sweep(tmp_path / "sweep.toml")
    assert (len(sweep.trials), sweep.steps) == (15, 3_000)


@pytest.mark.long
def test_the_commands_of_the_page_on_comparing_lead_to_what_it_says_of_five_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page("comparing-agents.md")
    (file,), (commands,), (shown,) = blocks(text, "toml"), blocks(text, "sh"), blocks(text, "")
    (tmp_path / "pole").mkdir()
    (tmp_path / "pole" / "sweep.toml").write_text(file)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    for command in commands.splitlines():
        assert main(shlex.split(command, comments=True)[1:]) == 0
    assert (tmp_path / "report.html").exists()
    printed = capsys.readouterr().out
    assert "Intervals of few seeds are too narrow" in printed
    rows = {tuple(NUMBER.sub("", line).split()) for line in printed.splitlines()}
    assert {tuple(NUMBER.sub("", line).split()) for line in shown.splitlines()} <= rows
    with open(tmp_path / "out" / "pole" / "tables.csv") as table:
        found = {(row["group"], row["score"], row["statistic"]): row for row in csv.DictReader(table)}
    assert float(found["bdqn-explore", "area", "ratio"]["low"]) > 1.5
    assert float(found["bdqn", "area", "ratio"]["estimate"]) < float(found["bdqn-explore", "area", "ratio"]["low"])
