"""``bdqn check``, and what the command line says of environments that fail."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from bdqn.cli import main
from bdqn.cli.common import short_warnings
from bdqn.envs import EnvironmentWarning
from bdqn.runs.exit_codes import CRASHED
from support.worlds import World


class Weak(World):
    """Fails in the decisions of all environments that are listed."""

    bad: frozenset[int] = frozenset()
    steps = 0

    def step(self, action: int) -> Any:
        Weak.steps += 1
        if Weak.steps in self.bad:
            raise ConnectionError("lost")
        return super().step(action)


PLACE = f"test_check.py, line {Weak.step.__code__.co_firstlineno + 3}"


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gym.register("Weak-v0", entry_point=Weak)
    Weak.steps, Weak.bad = 0, frozenset()
    yield
    gym.registry.pop("Weak-v0")


def train(folder: Path, *more: str, steps: int = 60) -> list[str]:
    flags = ["--agent", "random", "--buffer-size", "200", "--save-freq", "20", "--quiet", "--out", str(folder)]
    return ["train", "--env", "Weak-v0", "--steps", str(steps), *flags, *more]


def test_check_prints_what_was_found_and_what_would_learn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "FrozenLake-v1", "--env-kwargs", "is_slippery=false", "--episodes", "2"]) == 0
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert (first, last) == ("FrozenLake-v1", "0 error(s), 0 warning(s), 1 note(s)")
    assert any(line.startswith("  ok      episodes      2 of ") for line in lines)
    assert lines[-1] == (
        "  ok      agent         family classic, preset default-classic; the network reads a one-hot vector of 16, "
        "then 2 dense layer(s) of 128."
    )


def test_check_ends_with_2_where_nothing_could_learn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "Pendulum-v1"]) == 2
    captured = capsys.readouterr()
    assert "  error   spaces        Pendulum-v1 has the action space" in captured.out
    assert captured.err == ""


class Closing(World):
    """Closes standard output."""

    def reset(self, **given: Any) -> Any:
        sys.stdout.close()
        return super().reset(**given)


def test_an_environment_that_closes_standard_output_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gym.register("Closing-v0", entry_point=Closing)
    monkeypatch.setattr("sys.stdout", StringIO())
    monkeypatch.setattr("sys.stderr", told := StringIO())
    assert main(["check", "Closing-v0"]) == 1
    gym.registry.pop("Closing-v0")
    assert told.getvalue() == "bdqn: The environment closed standard output, so nothing can be printed: correct it.\n"


def test_check_is_silent_where_its_reader_has_gone() -> None:
    """As in `bdqn check CartPole-v1 | head -1`."""
    command = [sys.executable, "-u", "-m", "bdqn", "check", "CartPole-v1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"CartPole-v1\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_run_goes_on_after_failures_says_so_and_is_resumed_in_the_same_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    Weak.bad = frozenset({5, 30, 70})
    assert main(train(tmp_path / "run", "--restart-env", "2", "--step-timeout", "5")) == 0
    reason = f"step() of Weak-v0 raised ConnectionError: lost ({PLACE})."
    assert [str(warning.message) for warning in recwarn.list] == [
        f"Environment 0 was restarted ({i} of 2): {reason}" for i in (1, 2)
    ]
    meta = json.loads((tmp_path / "run" / "meta.json").read_text())
    assert meta["restarts"] == [{"step": step, "env": 0, "reason": reason} for step in (5, 29)]
    assert (tmp_path / "run" / "episodes.csv").read_text().splitlines()[1:4] == [
        "5,0,4.0,4,1",
        "16,0,12.0,12,0",
        "28,0,12.0,12,0",
    ]
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["supervision"] == {"restart_env": 2, "step_timeout": 5.0}
    recwarn.clear()
    assert main(["resume", str(tmp_path / "run"), "--steps", "90", "--quiet"]) == 0
    assert len(recwarn.list) == 1
    meta = json.loads((tmp_path / "run" / "meta.json").read_text())
    assert [restart["step"] for restart in meta["restarts"]] == [5, 29, 68]


def test_a_run_that_was_killed_before_its_first_checkpoint_keeps_its_supervision(tmp_path: Path) -> None:
    assert main(train(tmp_path / "run", "--restart-env", "2", "--save-freq", "0", steps=5)) == 0
    for generation in (tmp_path / "run" / "checkpoints").glob("gen-*"):
        generation.rename(tmp_path / "gone")
    Weak.bad = frozenset({8})
    with pytest.warns(match="was restarted"):
        assert main(["resume", str(tmp_path / "run"), "--steps", "20", "--quiet"]) == 0


def test_a_run_whose_environment_fails_shows_where_and_says_what_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Weak.bad = frozenset({25})
    assert main(train(tmp_path / "run")) == CRASHED
    *shown, note, line = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("Traceback")
    assert note == f"In the environment: step() of Weak-v0 raised ConnectionError: lost ({PLACE})."
    assert line.startswith(
        "bdqn: Stopped after 24 decisions by ConnectionError: lost (traceback above). The latest checkpoint is "
    )
    assert "supervision" not in tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    Weak.bad = frozenset({Weak.steps + 3})
    assert main(["evaluate", str(tmp_path / "run")]) == 1
    assert capsys.readouterr().err.startswith("bdqn: step() of Weak-v0 raised ConnectionError: lost")


def test_an_environment_that_cannot_begin_is_refused_before_there_is_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Weak, **_: Any) -> Any:
        raise KeyError("level 9")

    monkeypatch.setattr(Weak, "reset", fail)
    assert main(train(tmp_path / "run")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bdqn: reset() of Weak-v0 raised KeyError: 'level 9' (test_check.py, line ")
    monkeypatch.setattr(Weak, "__init__", fail)
    assert main(train(tmp_path / "run")) == 2
    assert capsys.readouterr().err.startswith("bdqn: Making Weak-v0 raised KeyError: 'level 9' (test_check.py, line ")
    assert not (tmp_path / "run").exists()


def test_our_own_warnings_are_lines_like_errors() -> None:
    place = ("some.py", 3)
    with short_warnings():
        ours = warnings.formatwarning(EnvironmentWarning("mind\nthis"), EnvironmentWarning, *place)
        others = warnings.formatwarning(UserWarning("and that"), UserWarning, *place)
    assert ours == "bdqn: mind this\n"
    assert others == warnings.formatwarning(UserWarning("and that"), UserWarning, *place) != "bdqn: and that\n"
