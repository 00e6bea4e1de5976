"""A run writes to its own directory, to nobody else's, and says what has become of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import bdqn
from bdqn.cli import main
from bdqn.runs import exit_codes
from bdqn.runs.directory import Claim, DirectoryLost, claim_directory, locked
from bdqn.storage.checkpoints import Checkpoints
from support.cartpole import SETTINGS, deterministic_files, saved, status, train
from support.forks import Server, wait_until

LONG = 100_000


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def remove(folder: Path) -> None:
    """All of it, although somebody writes into it at the same time."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


# --- what belongs to others -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["episodes.csv", "evaluations.csv", "checkpoints/replay/data.bin", "lock/mine", "x"])
def test_a_directory_that_holds_something_else_is_refused_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")
    before = everything(folder)
    assert main(train(folder, 50)) == 2
    told = capsys.readouterr().err
    assert "is not empty and holds no run" in told or "is not writable" in told
    assert "Traceback" not in told
    assert everything(folder) == before


def test_where_one_was_killed_before_it_had_begun_a_run_begins(tmp_path: Path) -> None:
    for name in ("lock", ".tmp-config.toml"):
        (tmp_path / name).touch()
    assert main(train(tmp_path, 50)) == 0


def test_a_saved_agent_is_replaced_only_where_nothing_else_lies_with_it(tmp_path: Path) -> None:
    learner = bdqn.make("random", "CartPole-v1", buffer_size=100)
    learner.save(tmp_path / "agent")
    learner.save(tmp_path / "agent")
    (tmp_path / "agent" / "notes.txt").write_text("mine")
    website = tmp_path / "website"
    website.mkdir()
    (website / "manifest.json").write_text("{}")
    Checkpoints(tmp_path / "checkpoints").save(learner)
    (tmp_path / ".tmp-old-fresh").mkdir()
    (tmp_path / ".tmp-old-fresh" / "thesis.tex").write_text("mine")
    before = everything(tmp_path)
    for name in ("agent", "website", "checkpoints/gen-000000000000", "fresh"):
        with pytest.raises(FileExistsError, match="choose another path"):
            learner.save(tmp_path / name)
    assert everything(tmp_path) == before


def test_checkpoints_leave_alone_what_is_not_theirs(tmp_path: Path) -> None:
    learner = bdqn.make("random", "CartPole-v1", buffer_size=100)
    (tmp_path / ".tmp-mine").write_text("mine")
    Checkpoints(tmp_path).save(learner)
    assert (tmp_path / ".tmp-mine").read_text() == "mine"
    (tmp_path / "other" / "replay").mkdir(parents=True)
    (tmp_path / "other" / "replay" / "game.mp4").write_text("mine")
    with pytest.raises(FileExistsError, match="not replay segments: choose another directory"):
        Checkpoints(tmp_path / "other").save(learner)
    assert (tmp_path / "other" / "replay" / "game.mp4").read_text() == "mine"


@pytest.mark.parametrize("argument", ["--out", "--env-kwargs"])
def test_what_is_no_utf_8_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argument: str
) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path / "run") + b"\xff")
    words = (argument, f"x={odd}") if argument == "--env-kwargs" else (argument, odd)
    assert main([*train(tmp_path / "run", 50), *words]) == 2
    assert r"\udcff' is not valid UTF-8: choose another name." in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# --- what becomes of ours -------------------------------------------------------------------------------------


def test_without_its_lock_a_second_process_is_still_kept_out(forks: Server, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = forks.start(*train(folder, LONG))
    wait_until(lambda: saved(folder), process)
    (folder / "lock").unlink()
    second = forks.run("resume", str(folder), "--quiet")
    assert (second.code, "is in use: another process is training in it" in second.errors) == (2, True)
    wait_until(lambda: "lock was removed and has been restored" in process.errors, process)
    assert (folder / "lock").exists()
    process.kill()
    assert forks.run("inspect", str(folder)).code == 0


def test_a_directory_that_another_process_took_over_is_left_to_it(forks: Server, tmp_path: Path) -> None:
    """As where locks do not work: what stands there is not this process's any more."""
    folder = tmp_path / "run"
    process = forks.start(*train(folder, LONG))
    wait_until(lambda: saved(folder), process)
    (folder / "other").touch()
    (folder / "other").replace(folder / "lock")
    assert process.wait() == 1
    assert f"Another process has taken over {folder}, so nothing more was written to it." in process.errors
    assert forks.run("inspect", str(folder)).code == 0


def test_a_lock_that_became_a_link_is_told_as_one(tmp_path: Path) -> None:
    claim = Claim(tmp_path)
    (tmp_path / "mine").touch()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    (tmp_path / "link").replace(tmp_path / "lock")
    with pytest.raises(DirectoryLost, match=r"lock is a link, not a regular file.* nothing more was written"):
        claim.check()
    claim.release()


def test_a_run_follows_its_directory(forks: Server, tmp_path: Path) -> None:
    unharmed, folder, moved = tmp_path / "unharmed", tmp_path / "run", tmp_path / "moved here"
    assert forks.run(*train(unharmed, 1_000)).code == 0
    process = forks.start(*train(folder, 1_000))
    wait_until(lambda: saved(folder), process)
    folder.rename(moved)
    assert process.wait() == 1
    first, last = process.errors.splitlines()
    assert first == f"bdqn: {folder} was moved: the run continues in {moved}."
    assert last == f"bdqn: {folder} was moved during the run: its files are in {moved}."
    assert f"Evaluate it: bdqn evaluate '{moved}'" in process.output
    assert not folder.exists()
    assert deterministic_files(moved) == deterministic_files(unharmed)
    assert status(moved) == "finished"


@pytest.mark.parametrize("taken", [False, True], ids=["gone", "another-in-its-place"])
def test_of_a_directory_that_was_removed_all_is_written_again_that_can_be(
    forks: Server, tmp_path: Path, taken: bool
) -> None:
    folder = tmp_path / "run"
    process = forks.start(*train(folder, LONG))
    wait_until(lambda: saved(folder) >= 400, process)
    if taken:
        os.kill(process.pid, signal.SIGSTOP)  # it would follow the directory to where it is for a moment
        folder.rename(tmp_path / "away")
        folder.mkdir()
        (folder / "mine").touch()
        remove(tmp_path / "away")
        os.kill(process.pid, signal.SIGCONT)
    else:
        remove(folder)
    assert process.wait() == 1
    told = process.errors.splitlines()[-1]
    # A run that was just writing into the directory may have made it again: then it, too, is in the way.
    rescued = list(tmp_path.glob("run_rescued_*"))
    assert rescued or not taken
    place = rescued[0] if rescued else folder
    assert f"{folder} was removed during the run. Its tables and a new checkpoint were written to" in told
    assert f"bdqn resume {place} continues from there." in told
    steps = saved(place)
    assert forks.run("inspect", str(place)).code == 0
    assert forks.run("resume", str(place), "--quiet", "--steps", str(steps + 200)).code == 0
    whole = tmp_path / "whole"
    assert forks.run(*train(whole, steps + 200)).code == 0
    for name in ("episodes.csv", "metrics.csv", "evaluations.csv", "config.toml"):
        assert (place / name).read_bytes() == (whole / name).read_bytes()
    if taken:
        assert [path.name for path in folder.iterdir()] == ["mine"]


def test_a_claim_holds_while_nothing_happens(tmp_path: Path) -> None:
    with locked(claim_directory(tmp_path / "run"), new=True) as claim:
        assert claim.check() is None
        (tmp_path / "run").rename(tmp_path / "elsewhere")
        assert "was moved" in str(claim.check())
        assert claim.folder == tmp_path / "elsewhere"
        (tmp_path / "elsewhere").rename(tmp_path / "run")
        claim.check()
        assert claim.folder == tmp_path / "run"
        assert claim.check() is None


class Wandering(CartPoleEnv):
    """Changes the directory it works in, as some simulators do."""

    def reset(self, **kwargs: Any) -> Any:
        os.chdir("/")
        return super().reset(**kwargs)


gym.register("Wandering-v0", Wandering, max_episode_steps=100)


def test_an_environment_that_goes_elsewhere_does_not_take_the_run_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("train", *SETTINGS[2:], "--env", "Wandering-v0", "--steps", "300", "--out", "here")
    assert main(words) == 0
    assert "Files: here\n" in capsys.readouterr().out
    assert (saved(tmp_path / "here"), status(tmp_path / "here")) == (300, "finished")
    monkeypatch.chdir(tmp_path)
    assert main(["resume", "here", "--steps", "400", "--quiet"]) == 0
    assert saved(tmp_path / "here") == 400
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "here", "--episodes", "1", "--keep"]) == 0
    assert (tmp_path / "here" / "evaluation-0.json").is_file()
    monkeypatch.chdir(tmp_path)
    assert main(["watch", "here", "--max-steps", "5", "--out", "page.html"]) == 0
    assert (tmp_path / "page.html").is_file()


def test_what_tune_chose_stays_where_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *SETTINGS[2:], "--env", "Wandering-v0", "--steps", "300", "--out", "here"]) == 0
    monkeypatch.chdir(tmp_path)
    one = "--prior-var 1 --noise-var 1 --posterior-batch-size 100 --posterior-update-interval 50 --sample-interval 5"
    assert main(["tune", "here", "--episodes", "1", *one.split(), "--out", "chosen.toml"]) == 0
    assert (tmp_path / "chosen.toml").exists()


def test_python_checkpoints_stay_where_they_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    learner = bdqn.make("random", "CartPole-v1", buffer_size=100)
    checkpoints = Checkpoints("kept")
    checkpoints.save(learner)
    os.chdir("/")
    learner.learn(10)
    checkpoints.save(learner)
    assert saved(tmp_path.joinpath("x")) == 0
    assert len(list((tmp_path / "kept").glob("gen-*"))) == 2
    assert json.loads((tmp_path / "kept" / "gen-000000000010" / "manifest.json").read_text())["step"] == 10


class Interfering(CartPoleEnv):
    """Somebody does something to the run's directory before its 250th step."""

    steps = 0
    act: ClassVar[Callable[[], None]]

    def step(self, action: Any) -> Any:
        Interfering.steps += 1
        if Interfering.steps == 250:
            Interfering.act()
        return super().step(action)


gym.register("Interfering-v0", Interfering, max_episode_steps=500)


def interfered(run: Path, act: Callable[[], None]) -> int:
    Interfering.steps, Interfering.act = 0, staticmethod(act)
    words = ("--env", "Interfering-v0", "--eval-freq", "0", "--save-freq", "100", "--steps", "400", "--out", str(run))
    return main(["train", *SETTINGS[2:], *words])


def test_a_directory_of_checkpoints_that_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    run, mine = tmp_path / "run", tmp_path / "mine"
    (mine / ".tmp-gen-notes").mkdir(parents=True)

    def swap() -> None:
        (run / "checkpoints").rename(run / "before")
        (run / "checkpoints").symlink_to(mine)

    assert interfered(run, swap) == exit_codes.DISK_FULL
    assert [path.name for path in mine.iterdir()] == [".tmp-gen-notes"]


def test_tables_and_segments_that_are_removed_are_written_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"

    def remove() -> None:
        for path in [*run.glob("*.csv"), run / "config.toml", *run.glob("checkpoints/replay/*")]:
            path.unlink()

    assert interfered(run, remove) == 0
    assert "Restored files that were removed from" in capsys.readouterr().err
    undisturbed = tmp_path / "undisturbed"
    assert interfered(undisturbed, lambda: None) == 0
    for name in ("episodes.csv", "metrics.csv", "config.toml"):
        assert (run / name).read_bytes() == (undisturbed / name).read_bytes()
    assert Checkpoints(run / "checkpoints").load().replay  # which reads every segment
