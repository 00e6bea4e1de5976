"""Runs that stop by time or by score, and how they go on."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.report.runs import read_runs
from bdqn.runs import exit_codes
from bdqn.storage.provenance import arithmetic
from bdqn.storage.saved_agents import find_agent
from support.cli import REFITS, SMALL, Train

TABLES = ("config.toml", "episodes.csv", "metrics.csv")


def status(folder: Path) -> str:
    return str(json.loads((folder / "meta.json").read_text())["status"])


def saved(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").glob("gen-*"))


def words(folder: Path, *more: str) -> list[str]:
    head = ["train", "--agent", "bdqn", "--env", "CartPole-v1", "--steps", "600", "--out", str(folder), "--quiet"]
    return [*head, *SMALL, *REFITS, *more]


def files(folder: Path) -> dict[str, bytes]:
    last = sorted((folder / "checkpoints" / "gen-000000000600").iterdir())
    return {path.name: path.read_bytes() for path in [*(folder / name for name in TABLES), *last]}


# --- by time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [("bdqn",), ("bdqn-explore", "--prior-features", "32")], ids=lambda agent: agent[0])
def test_max_minutes_stops_with_a_checkpoint_and_the_run_goes_on_exactly(
    agent: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    assert main(words(whole, "--agent", *agent)) == 0
    capsys.readouterr()
    assert main(words(folder, "--agent", *agent, "--max-minutes", "0.002")) == exit_codes.TIME_LIMIT
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.startswith("Stopped by --max-minutes after ")
    assert second == f"Resume it: bdqn resume {folder}"
    assert status(folder) == "interrupted"
    assert saved(folder)
    assert main(["resume", str(folder), "--max-minutes", "0", "--quiet"]) == exit_codes.TIME_LIMIT
    assert main(["resume", str(folder), "--max-minutes", "10", "--quiet"]) == 0
    assert status(folder) == "finished"
    assert files(folder) == files(whole)


# --- by score -------------------------------------------------------------------------------------------------


def test_stop_at_a_score_ends_the_run_and_changes_nothing_before(
    capsys: pytest.CaptureFixture[str], train: Train
) -> None:
    whole = train("whole", "--agent", "random", steps=4_000)
    folder = train("run", "--agent", "random", "--stop-at", "1", steps=4_000)  # with the hundredth episode
    printed = capsys.readouterr().out
    rows = (folder / "episodes.csv").read_text().splitlines()
    assert len(rows) == 101
    assert rows == (whole / "episodes.csv").read_text().splitlines()[:101]
    steps = int(rows[-1].split(",")[0])
    assert f"Reached the score of 1 after {steps:,} decisions." in printed
    assert saved(folder)[-1] == f"gen-{steps:012d}"
    assert status(folder) == "finished"
    assert tomllib.loads((folder / "config.toml").read_text())["schedule"]["stop_at"] == 1
    assert main(["resume", str(folder), "--quiet"]) == 0  # it has come to its end, and stays there
    assert saved(folder)[-1] == f"gen-{steps:012d}"
    assert main(["resume", str(folder), "--stop-at", "none", "--quiet"]) == 0
    assert all((folder / name).read_bytes() == (whole / name).read_bytes() for name in TABLES)
    assert read_runs([folder]).records


def test_stop_at_goes_by_the_latest_evaluation_where_there_is_one(train: Train) -> None:
    folder = train("run", "--stop-at", "1", "--eval-freq", "150", "--eval-episodes", "1")
    assert saved(folder) == ["gen-000000000150"]


# --- by episodes ----------------------------------------------------------------------------------------------


def test_max_episodes_ends_the_run_and_changes_nothing_before(capsys: pytest.CaptureFixture[str], train: Train) -> None:
    whole = train("whole", steps=600)
    folder = train("run", "--max-episodes", "7", steps=600)
    printed = capsys.readouterr().out
    rows = (folder / "episodes.csv").read_text().splitlines()
    assert rows == (whole / "episodes.csv").read_text().splitlines()[:8]
    steps = int(rows[-1].split(",")[0])
    assert f"Reached 7 episodes after {steps:,} decisions." in printed
    assert (status(folder), saved(folder)[-1]) == ("finished", f"gen-{steps:012d}")
    assert main(["resume", str(folder), "--quiet"]) == 0  # it has come to its end, and stays there
    assert saved(folder)[-1] == f"gen-{steps:012d}"
    assert main(["resume", str(folder), "--max-episodes", "none", "--quiet"]) == 0
    assert (folder / "episodes.csv").read_bytes() == (whole / "episodes.csv").read_bytes()


# --- the same command again -----------------------------------------------------------------------------------


def test_the_same_command_goes_on_when_asked_to(
    capsys: pytest.CaptureFixture[str], train: Train, tmp_path: Path
) -> None:
    whole, folder = train("whole"), tmp_path / "run"
    again = words(folder, "--continue")
    assert main([*again, "--max-minutes", "0"]) == exit_codes.TIME_LIMIT  # there is none yet: it begins
    assert main(words(folder)) == 2
    assert "already holds a run: continue it (--continue)" in capsys.readouterr().err
    assert main(again) == 0
    assert files(folder) == files(whole)
    assert (folder / "command.txt").read_text().count("--continue\n") == 1
    capsys.readouterr()
    assert main(again) == 0
    assert "has already taken 600 decisions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (("--seed", "3"), "its seed is 0, not 3"),
        (("--gamma", "0.5"), "its gamma is 0.99, not 0.5"),
        (("--eval-max-steps", "5"), "its eval_max_steps is None, not 5"),
        (("--env-kwargs", "sutton_barto_reward=true"), "its sutton_barto_reward is None, not True"),
    ],
)
def test_another_command_does_not_go_on_with_a_run(
    capsys: pytest.CaptureFixture[str], train: Train, other: tuple[str, ...], told: str
) -> None:
    folder = train("run", steps=100)
    before = files_of(folder)
    assert main([*words(folder, "--continue"), *other]) == 2
    assert told in capsys.readouterr().err
    assert files_of(folder) == before


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_continue_needs_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--env", "CartPole-v1", "--continue"]) == 2
    assert "--continue needs --out" in capsys.readouterr().err


# --- what a resumed run must not become -----------------------------------------------------------------------


def test_a_run_does_not_change_its_environment(capsys: pytest.CaptureFixture[str], train: Train) -> None:
    folder = train("run", steps=100)
    before = files_of(folder)
    assert main(["resume", str(folder), "--env", "CartPole-v0", "--steps", "200"]) == 2
    assert f"{folder} was trained on CartPole-v1, but --env is CartPole-v0" in capsys.readouterr().err
    assert files_of(folder) == before
    same = "gymnasium.envs.classic_control:CartPole-v1"  # the same by another path
    assert main(["resume", str(folder), "--env", same, "--steps", "200", "--quiet"]) == 0


def test_other_arithmetic_is_told(
    capsys: pytest.CaptureFixture[str], train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = train("run", steps=100)
    other = {**arithmetic(), "BLAS": "openblas 9.9 for Z80"}
    monkeypatch.setattr("bdqn.storage.origin.arithmetic", lambda: other)
    assert main(["resume", str(folder), "--steps", "200", "--quiet"]) == 0
    note = f"The continuation is not exact: BLAS was {arithmetic()['BLAS']} and is openblas 9.9 for Z80."
    assert capsys.readouterr().err == f"bdqn: {note}\n"
    assert json.loads((folder / "meta.json").read_text())["resumed"][0]["lost"] == [note]


# --- the best -------------------------------------------------------------------------------------------------


def test_the_best_checkpoint_does_not_depend_on_interruptions(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted between saves, and in the evaluation that comes before one."""
    schedule = ("--save-freq", "100", "--eval-freq", "100", "--eval-episodes", "1", "--keep", "1")
    whole = find_agent(train("whole", *schedule), best=True)
    for stop_at in (130, 200):
        folder = tmp_path / str(stop_at)
        with monkeypatch.context() as patched:
            _interrupt_after(patched, stop_at)
            assert main(words(folder, *schedule)) == exit_codes.INTERRUPTED
        assert main(["resume", str(folder), "--quiet"]) == 0
        best = find_agent(folder, best=True)
        assert best.name == whole.name
        assert (best / "manifest.json").read_bytes() == (whole / "manifest.json").read_bytes()
        shutil.rmtree(folder)


def _interrupt_after(patched: pytest.MonkeyPatch, decisions: int) -> None:
    """As a signal would, during decision ``decisions`` or in the evaluation after it."""
    from contextlib import contextmanager

    from bdqn.cli import running
    from bdqn.learner import Learner

    learners = []
    real = Learner.steps

    def steps(self: Learner, *arguments: object) -> object:
        learners.append(self)
        return real(self, *arguments)  # type: ignore[arg-type]

    @contextmanager
    def interruptible():  # type: ignore[no-untyped-def]
        yield lambda: bool(learners) and learners[0].num_timesteps >= decisions

    patched.setattr(Learner, "steps", steps)
    patched.setattr(running, "interruptible", interruptible)


def test_a_checkpoint_of_an_interruption_has_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        _interrupt_after(patched, 450)
        evaluated = ("--eval-freq", "200", "--eval-episodes", "1", "--save-freq", "200")
        assert main(words(folder, *evaluated)) == exit_codes.INTERRUPTED
    scores = [
        json.loads((folder / "checkpoints" / name / "manifest.json").read_text())["score"] for name in saved(folder)
    ]
    assert [score is None for score in scores] == [False, False, True]
    assert find_agent(folder).name == "gen-000000000450"
