"""``bdqn tune`` as users meet it."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.sweep.plan import read_sweep
from support.cli import Train

FEW = "--prior-var 1e-6 1 --noise-var 1 learned --posterior-batch-size 300 --posterior-update-interval 100 50"
SEARCH = """
steps = 400
seeds = 1
environments = ["CartPole-v1"]
trials = 2
[training]
learning_starts = 100
features = 16
buffer_size = 2_000
[schedule]
save_freq = 100
[agents.bdqn]
[search]
prior_var = { low = 1e-3, high = 10.0, log = true }
"""


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["tune", *arguments]) == 0
    return capsys.readouterr().out


def tables(output: str) -> list[list[dict[str, str]]]:
    """The two tables of candidates, by column."""
    found = []
    for block in output.split("\n\n"):
        lines = [
            line.replace("mean return  standard error  draw differs", "mean error differs")
            for line in block.splitlines()
        ]
        if lines and lines[0].startswith("posterior_"):
            rows = [line.split() for line in lines[1:] if not line.startswith("note")]
            found.append([dict(zip(lines[0].split(), row, strict=True)) for row in rows])
    return found


@pytest.fixture
def ddqn(train: Train, capsys: pytest.CaptureFixture[str]) -> Path:
    run = train("ddqn", "--agent", "ddqn")
    capsys.readouterr()
    return run


def test_the_best_candidate_of_each_table_is_chosen(
    ddqn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chosen.toml"
    words = [*FEW.split(), "--sample-interval", "episode", "10", "--episodes", "4", "--out", str(file)]
    output = shown(capsys, str(ddqn), *words)
    assert "frozen" in output
    assert "600 transitions (from the run's replay buffer)" in output
    first, second = tables(output)
    assert (len(first), len(second)) == (4, 4)
    best = [max(table, key=lambda row: float(row["mean"])) for table in (first, second)]
    assert len({row["mean"] for row in first}) > 1  # there was something to choose
    (command,) = (line.partition(": ")[2] for line in output.splitlines() if line.startswith("best settings"))
    flags = shlex.split(command)
    given = dict(zip(flags[2::2], flags[3::2], strict=True))
    assert given["--prior-var"] == best[0]["prior_var"]
    assert given["--noise"] == {"learned": "inverse-gamma"}.get(best[0]["noise_var"], "fixed")
    assert given.get("--noise-var", "learned") == best[0]["noise_var"]
    assert given["--posterior-update-interval"] == best[1]["posterior_update_interval"]
    assert given.get("--sample-interval", "episode") == best[1]["sample_interval"]
    assert given["--features"] == "16"  # as the run was trained
    content = tomllib.loads(file.read_text())
    for name, value in content["agents"]["bdqn"].items():
        assert given[f"--{name.replace('_', '-')}"] == str(value)
    file.write_text('steps = 10\nseeds = 1\nenvironments = ["CartPole-v1"]\n' + file.read_text())
    assert read_sweep(file).trials[0].agent == "bdqn"
    assert main([*flags[1:], "--steps", "150", "--out", str(tmp_path / "again"), "--quiet"]) == 0


def test_what_is_chosen_is_for_the_same_preset_and_as_many_environments(
    train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = train("ddqn", "--agent", "ddqn", "--preset", "paper", "--num-envs", "2"), tmp_path / "chosen.toml"
    words = [*FEW.split(), "--sample-interval", "9", "--episodes", "1", "--out", str(file)]
    output = shown(capsys, str(run), *words)
    assert "--preset paper --num-envs 2 " in output
    content = tomllib.loads(file.read_text())
    assert (content["preset"], content["num_envs"]) == ("paper", 2)


def test_the_same_seed_prints_the_same(ddqn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*FEW.split(), "--sample-interval", "10", "--episodes", "3"]
    first, again, other = (shown(capsys, str(ddqn), *words, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again
    assert tables(first) != tables(other)


@pytest.mark.parametrize("terminal", [False, True])
def test_it_says_how_long_the_rest_takes_apart_from_the_tables(
    ddqn: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bdqn.cli.tune.INTERVAL", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    words = "--prior-var 1 --noise-var 1 --posterior-batch-size 300 --posterior-update-interval 100 50"
    assert main(["tune", str(ddqn), *words.split(), "--sample-interval", "9", "--episodes", "4"]) == 0
    output, errors = capsys.readouterr()
    assert " left" not in output
    # Three candidates with four episodes each: the first is one of twelve.
    assert ("about 0 s left" if terminal else "bdqn: 8% of the episodes played, about ") in errors
    assert "100%" in errors


def test_one_episode_has_no_standard_error_and_too_few_decisions_are_said(
    ddqn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--prior-var 1 --noise-var 1 --posterior-batch-size 300 --posterior-update-interval 100_000"
    output = shown(capsys, str(ddqn), *words.split(), "--sample-interval", "9", "--episodes", "1")
    assert tables(output)[0][0]["error"] == "-"
    assert "note: a candidate that played fewer than T^BT decisions was not refitted" in output
    assert "note: B" not in output  # there are 600


def test_candidates_that_are_not_what_they_say_are_named_whatever_their_stage(
    ddqn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the first stage are refitted every 500 decisions, as the preset has it."""
    words = "--prior-var 1 --noise-var 1 --posterior-batch-size 600 601 5000 --posterior-update-interval 2"
    output = shown(capsys, str(ddqn), *words.split(), "--sample-interval", "9", "--episodes", "1")
    assert "note: B = 601 and 5000: more than the 600 available transitions" in output
    assert "note: a candidate that played fewer than T^BT decisions was not refitted" in output


def test_a_run_without_a_replay_memory_plays(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    run = train("ddqn", "--agent", "ddqn", "--save-replay", "false", "--target-update-interval", "20")
    words = [*FEW.split(), "--sample-interval", "9", "--episodes", "1"]
    assert "200 transitions (from 200 decisions played for it)" in shown(capsys, str(run), *words)
    assert "70 transitions (from 70 decisions played for it)" in shown(capsys, str(run), *words, "--collect", "70")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere", "nowhere does not exist"),
        ("", "the following arguments are required: RUN"),
        ("RUN --prior-var 0", "prior_var must be at least 1e-12"),
        ("RUN --prior-var wide", "prior_var must be a number, not 'wide'"),
        ("RUN --noise-var lerned", "noise_var must be a number, not 'lerned'"),
        ("RUN --sample-interval 0.5", "sample_interval must be a number, not '0.5'"),
        ("RUN --episodes 0", "episodes must be at least 1"),
        ("RUN --pror-var 1", "did you mean --prior-var"),
        ("RUN --workers 2", "has no flag --workers"),
        ("RUN --out nowhere/x.toml", "--out must be a file in an existing directory"),
        ("--search nowhere.toml", "nowhere.toml cannot be read"),
        ("--search x.toml --episodes 3", "has no flag --episodes"),
        ("--search x.toml --workers 0", "--workers must be at least 1"),
    ],
)
def test_a_mistake_is_answered_with_what_would_be_right(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *arguments.split()]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_says_which_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "search.toml"
    file.write_text(SEARCH)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["tune", "--search", str(file), "--out", str(tmp_path / "out")]) == 2
    assert "--search needs the extra tune; in bdqn's repository: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def driver(file: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bdqn", "tune", "--search", str(file), "--out", str(out), "--workers", "1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_search_that_is_killed_goes_on_to_the_number_of_trials(tmp_path: Path) -> None:
    file, out = tmp_path / "search.toml", tmp_path / "out"
    file.write_text(SEARCH)
    process = driver(file, out)
    end = time.monotonic() + 60
    while not list(out.glob("trials/*/checkpoints/gen-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    process = driver(file, out)
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    assert "2 of 2 trials are finished." in output
    assert len(list((out / "trials").iterdir())) == 2
    scores = [float(line.split()[3]) for line in output.splitlines() if line.startswith("  trial")]
    assert scores == sorted(scores, reverse=True)
    best = tomllib.loads((out / "best.toml").read_text())["agents"]["bdqn"]
    assert f"--prior-var {best['prior_var']}" in output
    again = driver(file, out).communicate(timeout=60)[0]
    assert again.startswith("2 of 2 trials are finished.")  # nothing was run
    file.write_text(SEARCH.replace("trials = 2", "trials = 1"))
    assert driver(file, out).communicate(timeout=60)[0].startswith("2 of 2 trials are finished.")  # none is taken back


def test_a_directory_with_other_things_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "search.toml"
    file.write_text(SEARCH)
    assert main(["tune", "--search", str(file), "--out", str(tmp_path)]) == 2
    assert "holds no sweep" in capsys.readouterr().err
