"""The environments of docs/environments.md, and what the page does with them, executed as they stand there."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest

import bdqn
from bdqn.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
TEXT = PAGE.read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^python -m bdqn (.* my_envs:.*)$", TEXT, flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def my_envs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's my_envs.py, where it is imported from."""
    (source,) = [block for block in BLOCKS if "gym.register(" in block]
    (tmp_path / "my_envs.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("my_envs", None)
    for env_id in re.findall(r'gym\.register\("([^"]*)"', source):
        gym.registry.pop(env_id, None)


def test_every_id_with_a_module_is_given_to_python_m() -> None:
    """The command bdqn does not look in the current directory."""
    assert len(COMMANDS) == 3
    assert not re.search(r"(?<!python -m )\bbdqn (train|check|resume)\b[^`\n]* my_envs:", TEXT)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works_on_it(command: str) -> None:
    words = shlex.split(command, comments=True)
    few = ["--steps", "20"] if words[0] == "train" else []
    assert main([*words, *few]) == 0


def test_a_run_is_resumed_as_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"`python -m bdqn (resume RUN .*?)`", TEXT)
    train = ["train", "--env", "my_envs:Robot-v0", "--steps", "20", "--out", "RUN"]
    assert main(train) == 0
    assert main([*shlex.split(command), "--steps", "30"]) == 0
    assert main(["resume", "RUN", "--steps", "40"]) == 2
    assert "--env my_envs:Robot-v0" in capsys.readouterr().err


def test_python_works_on_it() -> None:
    names = {"bdqn": bdqn}
    snippets = [block for block in BLOCKS if re.search(r"Corridor\b|my_envs:", block) and "gym.register(" not in block]
    assert len(snippets) == 3
    for snippet in snippets:
        exec(compile(snippet, str(PAGE), "exec"), names)
