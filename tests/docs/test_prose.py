"""Lines of Markdown prose fit a screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTH = 120
EXPERIMENTS = ROOT / "experiments"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *EXPERIMENTS.glob("*/README.md"),
        *EXPERIMENTS.glob("*/results/**/*.md"),
    ]
)
LINK_ALONE = re.compile(r"\s*(?:[-*] |\d+\. )?(?:!?\[[^]]*\]\([^)]*\)|<?https?://\S+)[.,;:]?\s*")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines, without code (fenced, or indented after a blank line), rows of tables and links alone."""
    fenced, indented = False, True
    for number, line in enumerate(text.splitlines(), start=1):
        indented = not line.strip() or (indented and line.startswith("    "))
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not (fenced or indented or line.startswith("|") or LINK_ALONE.fullmatch(line)):
            yield number, line


def too_long(text: str) -> list[int]:
    return [number for number, line in prose(text) if len(line) > WIDTH]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_prose_is_at_most_120_characters_wide(page: Path) -> None:
    assert not too_long(page.read_text(encoding="utf-8"))


def test_long_prose_is_noticed_and_nothing_else_is() -> None:
    long = "x " * 61
    assert too_long(f"{long}\n") == [1]
    assert too_long(f"short\n- {long}\n  {long}\n> {long}\n") == [2, 3, 4]
    assert too_long(f"| {long} |\n```\n{long}\n```\n\n    {long}\n\n![{long}](a.png)\n") == []
    assert too_long(f"https://{'x' * WIDTH}\n") == []
    assert too_long(f"10. an item\n    {long}\n") == [2]
    assert too_long(f"A sentence with a link: [{long}](a.md)\n") == [1]
