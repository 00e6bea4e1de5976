"""Extras: known by the names that pyproject.toml has, and advised with a command that works."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from bdqn.config.extras import EXTRAS, how_to_install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEXTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "Makefile"]


def test_every_extra_is_known() -> None:
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - {"dev"}


def test_the_command_is_for_the_python_that_runs_and_keeps_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "-m pip install -c constraints.txt -e '.[atari,tune]'"
    monkeypatch.setattr("shutil.which", lambda name: sys.executable)
    assert how_to_install("atari", "tune") == f"in bdqn's repository: python {command}"
    monkeypatch.setattr("shutil.which", lambda name: None)  # the environment is not activated
    assert how_to_install("atari", "tune") == f"in bdqn's repository: {sys.executable} {command}"


def test_nobody_is_sent_to_an_index_that_has_no_bdqn() -> None:
    """It is not released: what installs it does so from a clone."""
    for path in TEXTS:
        assert not re.search(r"pip install[^\n`]*\bbdqn(\[|\b(?!'s|/))", path.read_text()), path


def test_the_demo_installs_what_the_next_commands_of_the_readme_want() -> None:
    (ready,) = re.findall(r"^\$\(READY\):.*?(?=^\S)", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    (installed,) = re.findall(r"-e '\.\[(.*)\]'", ready)
    # Those that the readme's commands do not use are large.
    assert set(installed.split(",")) == set(EXTRAS) - {"ray", "wandb", "mlflow", "video", "export", "minari"}
