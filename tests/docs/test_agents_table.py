"""docs/algorithms/README.md and ``bdqn agents`` say what the recipes choose."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from bdqn.agents import AGENTS, compared
from bdqn.qlearning.describe import describe
from bdqn.qlearning.draws import Redraw
from bdqn.qlearning.targets import max_q

ALGORITHMS = Path(__file__).parents[2] / "docs" / "algorithms"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ALGORITHMS))
    return importlib.import_module("table")


def test_the_table_is_made_from_the_recipes(page: ModuleType) -> None:
    text = page.PAGE.read_text()
    assert page.filled(text) == text


def test_a_changed_recipe_changes_the_table(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = AGENTS["noisy"]
    changed = replace(recipe, choices=lambda settings: replace(recipe.choices(settings), bootstrap=max_q))
    monkeypatch.setitem(AGENTS, "noisy", changed)
    text = page.filled(page.PAGE.read_text())
    assert "| [`noisy`](noisy.md) | noisy | greedy under draw | decision | max q | = |" in text


def test_every_agent_has_its_page() -> None:
    linear = {"linpsrl", "linucb", "ucbvi", "ucrl2"}  # those with a page among bdqn linear's
    assert {path.stem for path in ALGORITHMS.glob("*.md")} == {*AGENTS, *linear, "README"}


def test_choices_in_words() -> None:
    rows = compared()
    assert rows["ddqn"] == {
        "head": "linear",
        "policy": "epsilon greedy",
        "redraw": "never",
        "bootstrap": "double q",
        "extras": "none",
    }
    assert rows["dqn"] == {**dict.fromkeys(rows["ddqn"], "="), "bootstrap": "max q"}
    assert [*rows["bootstrapped"].values()] == ["ensemble", "greedy under draw", "episode", "=", "masks"]
    assert [*rows["ucb"].values()] == ["bayesian", "upper bound", "=", "=", "refit"]
    recipe = AGENTS["bdqn"]
    settings = recipe.settings(redraw="steps", sample_interval=1000, prior_scale=1.0)
    assert describe(recipe.choices(settings)) | {"head": ""} == {
        "head": "",
        "policy": "greedy under draw",
        "redraw": "1,000 decisions",
        "bootstrap": "double q",
        "extras": "refit, prior",
    }
    assert str(Redraw(1)) == "decision"
