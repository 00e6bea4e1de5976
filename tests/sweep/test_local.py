"""Sweeps on this machine: interrupted, extended, failing, refused."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rich.console

from bdqn.cli import main
from bdqn.runs.directory import locked
from bdqn.sweep.display import Pace, Row, Status, _table, watching
from bdqn.sweep.engine import Work
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.plan import read_sweep
from support.sweeps import TABLES, begun, complete, driver, files, sweep_file, undisturbed_sweep, until


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    return undisturbed_sweep(tmp_path_factory.mktemp("undisturbed"))


def test_an_interrupted_sweep_saves_its_trials_and_goes_on(
    tmp_path: Path, undisturbed: tuple[Path, dict[str, bytes]]
) -> None:
    process, file, out = begun(tmp_path)
    process.send_signal(signal.SIGINT)
    _output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert not list(out.glob("trials/*/checkpoints/gen-000000001500"))[2:]  # it was in the middle
    statuses = {json.loads(path.read_text())["status"] for path in out.glob("trials/*/meta.json")}
    assert "interrupted" in statuses
    assert "running" not in statuses
    assert complete(file, out)[0] == 0
    assert files(out, 1_500) == undisturbed[1]


def test_a_second_interrupt_does_not_wait_and_loses_nothing(
    tmp_path: Path, undisturbed: tuple[Path, dict[str, bytes]]
) -> None:
    process, file, out = begun(tmp_path)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _output, errors = process.communicate(timeout=60)
    # It may have been done waiting, or, on a fast machine, be ending already: Python then has no handler any more.
    assert (process.returncode, errors) in [(130, ""), (130, "bdqn: interrupted.\n"), (-signal.SIGINT, "")]
    assert complete(file, out)[0] == 0
    assert files(out, 1_500) == undisturbed[1]


def test_the_full_scale_goes_on_with_a_quick_sweep(tmp_path: Path) -> None:
    """As if there had been no quick one."""
    more = "[scales.quick]\nsteps = 300\nseeds = 1"
    file, out = sweep_file(tmp_path, steps=600, seeds=2, agents="bdqn", more=more), tmp_path / "out"
    code, output, errors = complete(file, out, "--scale", "quick")
    assert (code, errors) == (0, "")
    assert "1 of 1 trials are finished." in output
    assert len(files(out, 300)) > len(TABLES)  # it took 300 decisions
    (quick,) = (out / "trials").iterdir()
    first = (quick / "episodes.csv").read_text()
    code, output, _ = complete(file, out)
    assert (code, "2 of 2 trials are finished." in output) == (0, True)
    assert (quick / "episodes.csv").read_text().startswith(first)
    assert complete(file, tmp_path / "fresh")[0] == 0
    assert files(out, 600) == files(tmp_path / "fresh", 600)
    code, output, _ = complete(file, out, "--scale", "quick")  # there is nothing to do
    assert (code, "1 of 1 trials are finished." in output) == (0, True)
    assert files(out, 600) == files(tmp_path / "fresh", 600)


def test_a_shorter_scale_is_satisfied_with_what_an_interrupted_longer_one_did(tmp_path: Path) -> None:
    """Beyond the shorter scale's end there is nothing to do; at its very end, whatever is due there is done."""
    more = "[scales.quick]\nsteps = 400"
    file, out = sweep_file(tmp_path, steps=50_000, seeds=[3], agents="ddqn", more=more), tmp_path / "out"

    def saved() -> int:
        return max((int(path.name[4:]) for path in out.glob("trials/*/checkpoints/gen-*")), default=0)

    process = driver(file, out)
    until(lambda: saved() > 400, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    (run,) = (out / "trials").iterdir()
    assert json.loads((run / "meta.json").read_text())["status"] == "interrupted"
    before = {name: (run / name).read_bytes() for name in TABLES}
    code, output, errors = complete(file, out, "--scale", "quick")
    assert (code, errors) == (0, "")
    assert "1 of 1 trials are finished." in output
    assert {name: (run / name).read_bytes() for name in TABLES} == before

    end = saved()
    file = sweep_file(tmp_path, steps=50_000, seeds=[3], agents="ddqn", more=more.replace("400", str(end)))
    code, output, errors = complete(file, out, "--scale", "quick")
    assert (code, errors) == (0, "")
    assert "1 of 1 trials are finished." in output
    assert files(out, end)


def test_a_finished_sweep_can_be_extended(tmp_path: Path, undisturbed: tuple[Path, dict[str, bytes]]) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed[0], out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("trials/*/episodes.csv")}
    code, output, _ = complete(sweep_file(tmp_path, steps=1_500, seeds=2), out)
    assert (code, "4 of 4 trials" in output) == (0, True)
    assert {path: path.stat().st_mtime_ns for path in out.glob("trials/*/episodes.csv")} == before  # nothing ran
    longer = sweep_file(tmp_path, steps=1_900, seeds=3, agents="bdqn")
    code, output, errors = complete(longer, out)
    assert (code, errors) == (0, "")
    assert "3 of 3 trials are finished." in output
    assert len(list((out / "trials").iterdir())) == 5
    fresh = tmp_path / "fresh"
    assert complete(longer, fresh)[0] == 0
    expected = files(fresh, 1_900)
    mine = {name: (out / "trials" / name.split("/")[0]) for name in expected}
    for name, run in mine.items():
        file = name.split("/")[1]
        path = run / file if file in TABLES else run / "checkpoints" / "gen-000000001900" / file
        assert path.read_bytes() == expected[name], name


def test_what_cannot_work_is_not_retried_and_shown_with_its_message(tmp_path: Path) -> None:
    """Rewards so large that training diverges; the other agent's trials are finished all the same."""
    file = sweep_file(tmp_path, steps=1_500, seeds=1)
    file.write_text(file.read_text().replace("[agents.ddqn]", "[agents.ddqn]\nlearning_rate = 1e30\nloss = 'squared'"))
    began = time.monotonic()
    code, output, errors = complete(file, tmp_path / "out", "--retries", "50")
    assert code == 1
    assert time.monotonic() - began < 120
    assert "1 of 2 trials are finished." in output
    assert "failed: ddqn on CartPole-v1, seed 0: bdqn: Stopped after" in output
    assert "is not finite" in output
    logs = [path.read_text().count("Stopped after") for path in (tmp_path / "out" / "logs").iterdir()]
    assert sorted(logs) == [0, 1]  # it was begun once
    assert "1 trials failed. Run the same command to retry them." in errors


def test_a_trial_that_keeps_dying_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a machine kills whatever takes too much memory."""
    file, out = sweep_file(tmp_path, steps=1_500, seeds=1, agents="ddqn"), tmp_path / "out"
    monkeypatch.setattr("bdqn.sweep.engine.FIRST_PAUSE", 0.01)
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'bdqn.cli.worker' in ' '.join(sys.orig_argv):\n"
        f"    open({str(tmp_path / 'lives')!r}, 'a').write('x')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["sweep", str(file), "--out", str(out), "--retries", "2", "--quiet"]) == 1
    assert (tmp_path / "lives").read_text() == "xxx"  # it was begun, and begun again twice


def test_only_one_sweep_at_a_time_works_in_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = sweep_file(tmp_path, steps=100, seeds=1), tmp_path / "out"
    out.mkdir()
    with locked(out, new=False):
        process = subprocess.run(
            [sys.executable, "-m", "bdqn", "sweep", str(file), "--out", str(out)], capture_output=True, text=True
        )
    assert process.returncode == 2
    assert "is in use" in process.stderr


def test_a_directory_with_other_things_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sweep_file(tmp_path, steps=100, seeds=1)
    assert main(["sweep", str(file), "--out", str(tmp_path)]) == 2
    assert "is not empty and holds no sweep" in capsys.readouterr().err


@pytest.mark.parametrize("below", ["a file", "nowhere"])
def test_a_directory_that_cannot_be_made_is_named(
    tmp_path: Path, below: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sweep_file(tmp_path, steps=100, seeds=1)
    out = file / "out" if below == "a file" else Path("/proc/nowhere")
    assert main(["sweep", str(file), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert str(out if below == "nowhere" else file) in error
    assert "Traceback" not in error


def test_a_list_of_trials_that_is_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = sweep_file(tmp_path, steps=100, seeds=1), tmp_path / "out"
    out.mkdir()
    (out / "trials.csv").write_text("patient,drug\n1,placebo\n")
    for command in (["sweep", str(file), "--out", str(out)], ["compare", str(out)]):
        assert main(command) == 2
        assert "trials.csv is not a sweep's list of trials" in capsys.readouterr().err
    assert (out / "trials.csv").read_text() == "patient,drug\n1,placebo\n"


def test_a_trial_with_new_settings_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    """Otherwise a comparison would take both for the same."""
    folder = SweepFolder(tmp_path / "out")
    folder.folder.mkdir()
    before, more = (read_sweep(sweep_file(tmp_path, steps=100, seeds=seeds)) for seeds in (2, 3))
    changed = sweep_file(tmp_path, steps=100, seeds=[1], agents="bdqn", more="num_envs = 2")
    for sweep in (before, more, read_sweep(changed)):
        folder.prepare(sweep)
    rows = {(row["group"], row["seed"]): row["trial"] for row in folder.rows()}
    assert len(folder.rows()) == len(rows) == 6
    (new,) = read_sweep(changed).trials
    assert rows == {(t.group, str(t.seed)): t.name for t in more.trials} | {("bdqn", "1"): new.name}


def test_a_sweep_says_per_group_where_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In lines, where there is no terminal."""
    sweep = read_sweep(sweep_file(tmp_path, steps=1_000, seeds=3))
    folder = SweepFolder(tmp_path / "out")
    done, first, second, third, *rest = sweep.trials  # bdqn has three seeds, then ddqn
    progress = ((done, 400, 1.0), (first, 300, 50.0), (second, 100, 50.0), (third, 550, 300.0), (rest[0], 50, 300.0))
    for trial, decisions, rate in progress:
        folder.run(trial).mkdir(parents=True)
        (folder.run(trial) / "timing.csv").write_text(f"step,seconds,rate\n{decisions},9.0,{rate}\n")
    work = Work([rest[0]], dict.fromkeys((first, second, third)), {rest[1]: "diverged"}, [done])  # type: ignore[arg-type]
    with watching(sweep, folder, quiet=False) as watch:
        watch(work)
        shown = capsys.readouterr().out.splitlines()
    assert shown == [
        # 400 of one that is done early, 1,000 of one given up, 950 of those that run, 50 of one to be continued: 2,400.
        # 3,000 are left.
        " 44.4 %  1 done, 3 running, 1 waiting, 1 failed, 400 decisions/s, 8 s left",
        "         bdqn on CartPole-v1: 1 done, 2 running, 0 waiting, 0 failed, 100 decisions/s",
        "         ddqn on CartPole-v1: 0 done, 1 running, 1 waiting, 1 failed, 300 decisions/s",
    ]


def test_the_time_left_goes_by_the_sweeps_own_pace() -> None:
    """A trial that has just begun says 10,000 a second of itself, and learns at 900."""
    pace = Pace()
    assert pace.update(0.0, 50_000, at_first=10_000.0) == 10_000.0, "nothing else is known"
    assert pace.update(30.0, 77_000, at_first=900.0) == 900.0
    assert pace.update(60.0, 110_000, at_first=10_000.0) == 1_000.0
    assert pace.update(360.0, 140_000, at_first=10_000.0) == 100.0, "of the last five minutes: 30,000 in 300 s"
    assert pace.update(420.0, 90_000, at_first=10_000.0) == 0.0, "a trial went back to its checkpoint"


def test_the_table_of_a_sweep_shows_names_as_they_are(tmp_path: Path) -> None:
    """Brackets are markup to rich, and would vanish or fail."""
    row = Row("fast [/big] [red]", "CartPole-v1", 1, 2, 3, 4, 567.0)
    output = io.StringIO()
    rich.console.Console(file=output, width=120).print(_table(Status((row,), 10, 40, 567.0)))
    (line,) = [line for line in output.getvalue().splitlines() if "CartPole" in line]
    assert [cell.strip() for cell in line.split("│")[1:-1]] == [
        "fast [/big] [red]",
        "CartPole-v1",
        *"3214",  # done, running, waiting, failed
        "567",
    ]
    assert "25.0 % of 40 decisions" in output.getvalue()


def test_a_dry_run_imports_no_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "games.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\nraise SystemExit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    file = sweep_file(tmp_path, steps=1_000, seeds=1, agents="ddqn")
    file.write_text(file.read_text().replace('"CartPole-v1"', '"games:Grid-v0", "CartPole-v1"'))
    assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--dry-run", "--workers", "1"]) == 0
    output = capsys.readouterr().out
    assert "ddqn on games:Grid-v0: not estimated: a dry run does not import games" in output
    assert "ddqn on CartPole-v1: " in output
    assert "2 trials, 1 in parallel: about " in output
    assert " for the estimated ones" in output
    assert not (tmp_path / "imported").exists()
    assert main(["sweep", str(file), "--out", str(tmp_path / "out")]) == 2  # it does import, before anything starts
    assert "The environment called sys.exit(0)." in capsys.readouterr().err
    assert (tmp_path / "imported").exists()
    assert not (tmp_path / "out").exists()


def test_a_dry_run_lists_the_trials_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sweep_file(tmp_path, steps=100_000, seeds=2, agents="ddqn")
    assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--dry-run", "--workers", "1"]) == 0
    output = capsys.readouterr().out
    assert output.count("seed ") == 2
    assert "0 of 100,000 decisions" in output
    assert "2 trials, 1 in parallel: about " in output
    assert "GB each" in output
    assert not (tmp_path / "out").exists()
