"""What a run prints as the next command can be typed as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.runs import hints
from bdqn.runs.hints import NextCommands, command
from support.cli import SMALL

MODULE = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

gym.register("Mine-v0", CartPoleEnv, max_episode_steps=50)
"""


def test_after_python_m_bdqn_the_printed_commands_work_with_a_module_of_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "my_envs.py").write_text(MODULE)

    def shell(line: str) -> str:
        done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    program = f"{sys.executable} -m bdqn train --env my_envs:Mine-v0 --agent ddqn --steps 300 --out 'a run'"
    printed = shell(" ".join([program, *SMALL]))
    (resume,) = re.findall(r"if interrupted +(.*) continues", printed)
    (evaluate,) = re.findall(r"Evaluate it: (.*)", printed)
    (watch,) = re.findall(r"Watch it: (.*)", printed)
    assert "has already taken 300 decisions" in shell(resume)
    assert "ddqn on my_envs:Mine-v0 after 300 decisions" in shell(f"{evaluate} --episodes 1")
    assert "watch.html" in shell(f"{watch} --max-steps 5")


def test_a_hint_begins_as_the_command_did(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["/site-packages/bdqn/__main__.py", "train"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command("resume", "a run") == f"{sys.executable} -m bdqn resume 'a run'"
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    assert command("resume", "run") == "python -m bdqn resume run"
    program = tmp_path / "bdqn"
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert command("resume", "run") == f"{program} resume run"  # it is not on the path
    monkeypatch.setattr(hints.shutil, "which", lambda name: str(tmp_path / name))
    assert command("resume", "run") == "bdqn resume run"


def test_an_environment_is_given_again_only_where_its_id_imports_a_module() -> None:
    assert NextCommands("run", "CartPole-v1").resume == "bdqn resume run"
    assert NextCommands("run", "my_envs:Mine-v0").evaluate == "bdqn evaluate run --env my_envs:Mine-v0"


def test_a_module_that_is_not_found_is_told_with_the_way_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--env", "no_such_module:Mine-v0"]) == 2
    assert "no module 'no_such_module'" in (told := capsys.readouterr().err)
    assert "python -m bdqn" in told


def test_another_python_on_the_path_does_not_pass_for_this_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A virtual environment's is a link to one without its packages."""
    (tmp_path / "python").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setattr(sys, "argv", ["/site-packages/bdqn/__main__.py"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command("doctor") == f"{sys.executable} -m bdqn doctor"
