"""Text fits the terminal: help, and what is printed in columns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from bdqn.cli import COMMANDS, main
from bdqn.cli.layout import fold, listed, table

Printed = Callable[..., list[str]]
HELP = ["", *COMMANDS, "tune --search FILE", "train --env CartPole-v1", "train --env ALE/Pong-v5 --agent bdqn-deep"]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    def print_at(width: int, *arguments: str) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        with suppress(SystemExit):  # help ends so
            assert main(arguments) == 0
        return capsys.readouterr().out.splitlines()

    return print_at


@pytest.mark.parametrize("arguments", HELP)
def test_help_fits_the_terminal_and_breaks_between_words(printed: Printed, arguments: str) -> None:
    narrow, wide, endless = (printed(width, *arguments.split(), "--help") for width in (80, 120, 1000))
    assert max(map(len, narrow)) <= 80
    assert max(map(len, wide)) <= 120
    assert " ".join(narrow).split() == " ".join(wide).split() == " ".join(endless).split()
    if max(map(len, endless)) > 80:
        assert max(map(len, wide)) > 80, "there is room"


@pytest.mark.parametrize("arguments", ["agents", "agents bdqn-deep", "doctor", "presets"])
def test_what_is_listed_fits_too(printed: Printed, arguments: str) -> None:
    narrow, wide = (printed(width, *arguments.split()) for width in (80, 120))
    assert max(len(line.rstrip()) for line in narrow if "pip install" not in line) <= 80
    assert " ".join(narrow).split() == " ".join(wide).split()


def test_a_list_stays_in_its_columns() -> None:
    lines = listed({"a": "one two three", "long-name": "four"})
    assert [part for line in lines for part in fold(line, 21)] == [
        "  a          one two",
        "             three",
        "  long-name  four",
    ]
    assert fold("a-hyphenated word stays whole", 10) == ["a-hyphenated", "word stays", "whole"]
    assert fold("- an item of a list", 12) == ["- an item of", "  a list"]
    assert fold("") == [""]


def test_a_table_too_wide_folds_its_last_column_or_sets_the_first_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("", "score", "notes"), ("agent", "1.25", "first, second")]
    wide = ["       score  notes", "agent  1.25   first, second"]
    for width, lines in (
        (30, wide),
        (22, [wide[0], "agent  1.25   first,", "              second"]),
        (15, ["    score  notes", "agent", "    1.25   first, second"]),
    ):
        monkeypatch.setenv("COLUMNS", str(width))
        assert table(rows) == lines


@pytest.mark.usefixtures("figures")
def test_linear_prints_columns_that_fit(printed: Printed, tmp_path: Path) -> None:
    agents = ["linpsrl", "linucb", "linucb:radius=data,scale=0.1,delta=0.05"]
    command = ["linear", "--agents", *agents, "--episodes", "20", "--seeds", "2", "--quiet", "--out", str(tmp_path)]
    narrow, wide = (printed(width, *command)[:-1] for width in (80, 120))  # but for the path
    assert max(map(len, narrow)) <= 80 < max(map(len, wide)) <= 120
    assert narrow[narrow.index(agents[2]) + 1].startswith("    ")
    assert " ".join(narrow).split() == " ".join(wide).split()
