"""Extras: known by the names that pyproject.toml has, and advised with a command that works."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from bdqn.config.extras import EXTRAS, how_to_install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEXTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "Makefile"]


def test_every_extra_is_known() -> None:
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - {"dev", "docs"}


def test_the_command_is_for_the_python_that_runs_and_keeps_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "-m pip install -c constraints.txt -e '.[atari,tune]'"
    monkeypatch.setattr("shutil.which", lambda name: sys.executable)
    assert how_to_install("atari", "tune") == f"in bdqn's repository: python {command}"
    monkeypatch.setattr("shutil.which", lambda name: None)  # the environment is not activated
    assert how_to_install("atari", "tune") == f"in bdqn's repository: {sys.executable} {command}"


def test_without_a_repository_the_command_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bdqn.config.extras._is_a_clone", lambda: False)
    command = how_to_install("minatar", "tune")
    wanted = [name for extra in ("minatar", "tune") for name in PROJECT["optional-dependencies"][extra]]
    assert shlex.split(command)[-len(wanted) :] == wanted
    assert "repository" not in command


def test_nobody_is_sent_to_an_index_that_has_no_bdqn() -> None:
    """It is not released: what installs it from there says from when on it will."""
    for path in TEXTS:
        for line in path.read_text().splitlines():
            sent = re.search(r"pip install[^\n`]*\bbdqn(\[|\b(?!'s|/|-))", line)
            assert not sent or "once published" in line, f"{path}: {line}"


def test_the_demo_installs_what_the_next_commands_of_the_readme_want() -> None:
    (ready,) = re.findall(r"^\$\(READY\):.*?(?=^\S)", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    (installed,) = re.findall(r"-e '\.\[(.*)\]'", ready)
    # Those that the readme's commands do not use are large.
    large = {"bsuite", "ray", "wandb", "mlflow", "video", "export", "hub", "minari"}
    assert set(installed.split(",")) == set(EXTRAS) - large
