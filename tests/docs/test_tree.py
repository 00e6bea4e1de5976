"""The package tree in README and CONTRIBUTING is the directory's, and the files that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bdqn"
PAGES = ("README.md", "CONTRIBUTING.md")


def tree(text: str) -> list[str]:
    """The entries of a page's tree: a code block whose first line is ``src/bdqn/``; several may share a line."""
    (block,) = re.findall(r"^```\nsrc/bdqn/\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    names = [re.split(r"\s{2,}", line.strip())[0] for line in block.splitlines()]
    return [entry for name in names for entry in name.split(", ")]


def entries(folder: Path) -> list[str]:
    """What a folder holds, with a slash after the names of folders; what Python leaves there does not count."""
    return [path.name + "/" * path.is_dir() for path in folder.iterdir() if path.name != "__pycache__"]


@pytest.mark.parametrize("page", PAGES)
def test_the_tree_lists_every_entry_once(page: str) -> None:
    assert sorted(tree((ROOT / page).read_text())) == sorted(entries(PACKAGE))


def test_a_tree_with_another_entry_is_noticed() -> None:
    page = "```\nsrc/bdqn/\n  bayes/      posteriors\n  a.py, b.py  two files\n```\n"
    assert tree(page) == ["bayes/", "a.py", "b.py"]
    assert sorted(tree(page)) != sorted(entries(PACKAGE))


@pytest.mark.parametrize("page", PAGES)
def test_files_named_in_prose_exist(page: str) -> None:
    """Paths in backticks are relative to src/bdqn or to the repository; a capital NAME stands for one to be made."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    named = [path for path in re.findall(r"`([\w./-]+/[\w./-]*)`", text) if not re.search(r"NAME|FAMILY", path)]
    assert named
    missing = [path for path in named if not ((PACKAGE / path).exists() or (ROOT / path).exists())]
    assert not missing


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= 120


def test_the_top_level_is_a_table_of_contents() -> None:
    assert len(entries(PACKAGE)) <= 20
