"""Output that cannot be written is said in a sentence, by an exit code, and never costs a run."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from bdqn.cli import main
from bdqn.runs.exit_codes import DISK_FULL
from support.cli import SMALL, Train

FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


def bdqn(redirections: str, *arguments: str, buffered: bool = True) -> tuple[int, list[str]]:
    """The exit code of a command whose output goes elsewhere, and its lines on the standard error."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    shell = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "bdqn", *arguments]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, env=environment, timeout=60)
    return done.returncode, done.stderr.splitlines()


@FULL
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("command", ["--help", "presets"])
def test_a_full_disk_is_named(command: str, buffered: bool) -> None:
    code, errors = bdqn("> /dev/full", command, buffered=buffered)
    assert (code, errors) == (DISK_FULL, ["bdqn: Cannot write to standard output: No space left on device."])


def test_a_closed_output_is_named_and_nothing_is_begun(tmp_path: Path) -> None:
    code, errors = bdqn(">&-", "train", "--env", "CartPole-v1", "--steps", "100", "--out", str(tmp_path / "run"))
    assert (code, errors) == (2, ["bdqn: Standard output is closed: redirect it to a file or to /dev/null."])
    assert not (tmp_path / "run").exists()


@FULL
def test_an_error_that_cannot_be_said_keeps_its_code() -> None:
    assert bdqn("2> /dev/full", "trian") == (2, [])
    assert bdqn(">&- 2>&-", "trian") == (2, [])


@FULL
def test_training_goes_on_when_its_output_cannot_be_written(tmp_path: Path) -> None:
    command = ("train", "--env", "CartPole-v1", "--agent", "ddqn", "--steps", "300", "--out", str(tmp_path / "run"))
    assert bdqn("> /dev/full", *command, *SMALL) == (0, [])
    assert '"finished"' in (tmp_path / "run" / "meta.json").read_text()


TUNE = "--prior-var 1 --noise-var 1 --posterior-batch-size 100 --posterior-update-interval 50 --sample-interval 9"


@pytest.mark.parametrize("command", ["watch {run} --max-steps 5", "report {run}", f"tune {{run}} {TUNE} --episodes 1"])
def test_a_file_from_before_outlives_a_full_disk(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    out, words = tmp_path / "out", command.format(run=train("run", "--agent", "ddqn", steps=300)).split()
    out.write_text("from before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        assert main([*words, "--out", str(out)]) == DISK_FULL
    assert out.read_text() == "from before"
    assert not list(tmp_path.glob(".tmp-*"))
    (tmp_path / "link").symlink_to(out)
    assert main([*words, "--out", str(tmp_path / "link")]) == 0
    assert (tmp_path / "link").is_symlink()
    assert len(out.read_text()) > 100


def refuse(file: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_regret_from_before_outlives_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figures: list[Figure]
) -> None:
    command = ["linear", "--mdp", "bandit", "--agents", "linpsrl", "--episodes", "9", "--seeds", "2", "--quiet"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(os, "write", refuse)
    assert main([*command, "--out", str(tmp_path)]) == DISK_FULL
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_page_can_go_to_a_pipe(train: Train) -> None:
    words = ["report", str(train("run", "--agent", "ddqn", steps=300)), "--out", "/dev/stdout"]
    done = subprocess.run([sys.executable, "-m", "bdqn", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "<!doctype html>" in done.stdout


@pytest.mark.parametrize(
    "words", [["inspect", "x" * 5000], ["resume", "x" * 5000], ["tune", "run", "--out", "x" * 5000]]
)
def test_paths_that_cannot_be_are_one_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "x" * 5000]) == 2
    assert capsys.readouterr().err.startswith("bdqn: ")
