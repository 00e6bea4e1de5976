"""Who is done, who is begun again and who is given up; most of it with processes that are made up."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.runs.directory import is_locked, locked
from bdqn.runs.exit_codes import CRASHED, DISK_FULL, WORKER_LOST
from bdqn.sweep import engine
from bdqn.sweep.display import watching
from bdqn.sweep.engine import Job, Work, run_sweep
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.local import Local
from bdqn.sweep.plan import Sweep, Trial, read_sweep
from support.sweeps import sweep_file
from support.troubled import ENV, TROUBLE, Troubled

STEPS = 100


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_PAUSE", "POLL"):
        monkeypatch.setattr(engine, name, 0.001)


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return SweepFolder(tmp_path / "out")


@pytest.fixture
def sweep(tmp_path: Path, folder: SweepFolder) -> Sweep:
    sweep = read_sweep(sweep_file(tmp_path, steps=STEPS, seeds=1, agents="ddqn"))
    folder.folder.mkdir()
    folder.prepare(sweep)
    return sweep


def finish(run: Path, steps: int) -> None:
    (run / "checkpoints" / f"gen-{steps:012d}").mkdir(parents=True)
    (run / "meta.json").write_text(json.dumps({"status": "finished"}))


class Made:
    """A process that ends as it is told to: with an exit code, or only when it is killed."""

    def __init__(self, code: int | None) -> None:
        self.code, self.stopped, self.killed = code, False, False

    def poll(self) -> int | None:
        return self.code

    def stop(self) -> None:
        self.stopped = True

    def wait(self, seconds: float) -> bool:
        return self.code is not None

    def kill(self) -> None:
        self.killed = True


class Script:
    """An engine whose processes end with these codes, one after the other; or cannot begin, for these errors."""

    def __init__(self, *script: int | OSError | None, then: Callable[[Path], None] = lambda run: None) -> None:
        self.script: Iterator[int | OSError | None] = iter(script)
        self.then, self.begun = then, list[Made]()

    def start(self, trial: Trial, folder: SweepFolder) -> Job:
        end = next(self.script)
        if isinstance(end, OSError):
            raise end
        self.then(folder.run(trial))
        self.begun.append(Made(end))
        return self.begun[-1]


def carried_out(sweep: Sweep, folder: SweepFolder, script: Script, retries: int = 0) -> Work:
    return run_sweep(sweep, folder, script, 1, retries, lambda work: None, lambda: False)


# --- what counts as done ------------------------------------------------------------------------------------


def test_exit_code_zero_is_no_finished_trial(sweep: Sweep, folder: SweepFolder) -> None:
    work = carried_out(sweep, folder, script := Script(0, 0, 0), retries=2)
    assert (work.done, len(script.begun)) == ([], 3)
    (message,) = work.failed.values()
    assert "exit code 0" in message
    assert "its run is not finished" in message


def test_a_trial_that_is_short_of_its_decisions_is_not_done(sweep: Sweep, folder: SweepFolder) -> None:
    work = carried_out(sweep, folder, Script(0, then=lambda run: finish(run, STEPS - 1)))
    assert (len(work.done), len(work.failed)) == (0, 1)


def test_a_trial_whose_files_are_complete_is_done_however_its_process_ended(sweep: Sweep, folder: SweepFolder) -> None:
    work = carried_out(sweep, folder, Script(-11, then=lambda run: finish(run, STEPS)))
    assert (len(work.done), work.failed) == (1, {})


@pytest.fixture
def troubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sweep file of a trial in an environment whose id imports a module."""
    places = Path(__file__).parents[1], Path(engine.__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))  # the workers'
    file = sweep_file(tmp_path, steps=STEPS, seeds=1, agents="ddqn")
    file.write_text(file.read_text().replace("CartPole-v1", ENV).replace("save_freq = 200", "save_freq = 20"))
    return file


def train(tmp_path: Path) -> list[str]:
    small = "--agent ddqn --steps 100 --save-freq 20 --learning-starts 20 --features 8 --buffer-size 200 --quiet"
    return ["train", "--env", ENV, "--out", str(tmp_path / "run"), *small.split()]


def status(run: Path) -> str:
    return str(json.loads((run / "meta.json").read_text())["status"])


def test_an_environment_that_calls_exit_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(TROUBLE, "exit:50")
    assert main(train(tmp_path)) == 1
    error = capsys.readouterr().err
    assert "Stopped after 49 decisions: the environment called sys.exit(0). The latest checkpoint is" in error
    assert status(tmp_path / "run") == "failed"
    monkeypatch.setitem(sys.modules, ENV.partition(":")[0], None)
    monkeypatch.setattr("bdqn.envs.catalog.import_module", lambda name: sys.exit(0))
    assert main([*train(tmp_path / "other")]) == 2
    assert "The environment called sys.exit(0)." in capsys.readouterr().err


def test_a_pipe_that_breaks_in_an_environment_is_not_our_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(TROUBLE, "pipe:50")
    assert main(train(tmp_path)) == CRASHED
    assert "by BrokenPipeError" in capfd.readouterr().err
    assert status(tmp_path / "run") == "failed"
    monkeypatch.setattr("bdqn.cli.presets.run", lambda argv: troubled_env().step(0))
    with pytest.raises(BrokenPipeError):  # in any other command, too
        main(["presets"])


def troubled_env() -> Troubled:
    env = Troubled()
    env.decisions = 100
    return env


def test_an_environment_that_ends_the_process_has_not_finished_its_trial(
    troubled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(TROUBLE, "quit:50")
    assert main(["sweep", str(troubled), "--out", str(tmp_path / "out"), "--retries", "0", "--quiet"]) == 1
    output = capsys.readouterr().out
    assert output.startswith("0 of 1 trials are finished.")
    assert "its run is not finished" in output


def test_an_environment_whose_id_imports_a_module_can_be_gone_on_with(troubled: Path, tmp_path: Path) -> None:
    (trial,) = read_sweep(troubled).trials
    run = tmp_path / "run"
    for steps in (STEPS, 150):
        assert main(replace(trial, steps=steps).command(run)) == 0
    assert [line.split()[1] for line in (run / "command.txt").read_text().splitlines()] == ["train", "resume"]
    assert (run / "checkpoints" / "gen-000000000150").is_dir()


# --- what is tried again ------------------------------------------------------------------------------------


def test_a_full_disk_is_waited_for_and_then_named(
    sweep: Sweep, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "DISK_PAUSE", 0.1)
    script = Script(DISK_FULL, OSError(errno.ENOSPC, "No space left on device"), DISK_FULL)
    began = time.monotonic()
    work = carried_out(sweep, folder, script, retries=2)
    assert time.monotonic() - began >= 0.1 + 0.2
    assert len(script.begun) == 2  # once there was not even room for its log
    (message,) = work.failed.values()
    assert f"could not be written to {folder.disk()}" in message
    assert "MB free). Free some space, then rerun the command" in message


@pytest.mark.parametrize("code", [WORKER_LOST, CRASHED, -9])
def test_what_may_pass_is_tried_again(sweep: Sweep, folder: SweepFolder, code: int) -> None:
    notes = []
    script = Script(code, 0, then=lambda run: script.begun and finish(run, STEPS))
    work = run_sweep(sweep, folder, script, 1, 1, lambda work: notes.extend(work.notes.values()), lambda: False)
    assert (len(work.done), work.notes) == (1, {})
    assert notes[0].startswith("restarts after 0 s: ")


def test_a_trial_that_waits_says_what_for(
    sweep: Sweep, folder: SweepFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (trial,) = sweep.trials
    folder.run(trial).mkdir()
    looks = 0

    def stop() -> bool:
        nonlocal looks
        looks += 1
        return looks > 3

    with locked(folder.run(trial), new=False), watching(sweep, folder, quiet=False) as watch:
        run_sweep(sweep, folder, Script(), 1, 0, watch, stop)
    assert f"ddqn on CartPole-v1, seed 0 waits for another process that uses {folder.run(trial)}" in (
        capsys.readouterr().out
    )


def test_a_log_on_a_full_disk_neither_ends_a_training_nor_changes_its_exit_code(troubled: Path, tmp_path: Path) -> None:
    def code_of(*command: str) -> int:
        with open("/dev/full", "w") as full:
            worker = subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=full, stderr=full)
            with worker:
                return worker.wait()

    words = [word for word in train(tmp_path) if word != "--quiet"]
    assert code_of("-m", "bdqn.cli.worker", *words) == 0
    assert status(tmp_path / "run") == "finished"
    fails = "import bdqn.cli, bdqn.cli.worker as w, sys\nbdqn.cli.main = lambda argv: 1 / 0\nsys.exit(w.main([]))"
    assert code_of("-c", fails) == DISK_FULL  # its traceback could not be printed


# --- what does not end --------------------------------------------------------------------------------------


def test_a_worker_that_is_stuck_is_killed_and_gives_its_directory_up(
    troubled: Path, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "KILL_AFTER", 0.5)
    monkeypatch.setenv(TROUBLE, "stuck:50")
    sweep = read_sweep(troubled)
    (trial,) = sweep.trials
    folder.folder.mkdir()
    folder.prepare(sweep)

    def is_stuck() -> bool:
        return "stuck" in (folder.log(trial).read_text() if folder.log(trial).exists() else "")

    work = run_sweep(sweep, folder, Local(), 1, 0, lambda work: None, is_stuck)
    assert work.notes[trial].startswith("did not stop when asked, perhaps stuck in its environment, and was killed")
    assert (work.waiting, work.running) == ([trial], {})
    assert not is_locked(folder.run(trial))
    assert folder.checkpoint(trial) == 40


def test_a_stuck_worker_whose_sweep_is_gone_gives_itself_up(
    troubled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TROUBLE, "stuck:30")
    (trial,) = read_sweep(troubled).trials
    code = "import sys, bdqn.cli.worker as w\nw.GRACE = 0.2\nsys.exit(w.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *trial.command(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            assert worker.stdout.readline() == "stuck\n"
            worker.stdin.close()
            assert worker.wait(timeout=30) == -9
        finally:
            worker.kill()
    assert not is_locked(tmp_path / "run")


def test_a_trial_that_reached_its_score_is_done_before_its_last_decision(tmp_path: Path) -> None:
    trial = Trial("ddqn", "ddqn", "CartPole-v1", 0, 9000, schedule={"stop_at": 5.0})
    folder = SweepFolder(tmp_path)
    command = ["train", "--env", "CartPole-v1", "--agent", "ddqn", "--steps", "9000", "--quiet"]
    assert main([*command, "--stop-at", "5", "--out", str(folder.run(trial))]) == 0
    progress = folder.progress(trial)
    assert progress.finished
    assert progress.decisions < 9000
    without = replace(trial, schedule={})
    folder.run(trial).rename(folder.run(without))
    assert not folder.progress(without).finished


def test_a_trial_that_had_its_episodes_is_done_before_its_last_decision(tmp_path: Path) -> None:
    trial = Trial("random", "random", "CartPole-v1", 0, 9000, schedule={"max_episodes": 5})
    folder = SweepFolder(tmp_path)
    command = ["train", "--env", "CartPole-v1", "--agent", "random", "--steps", "9000", "--quiet"]
    assert main([*command, "--max-episodes", "5", "--out", str(folder.run(trial))]) == 0
    assert folder.progress(trial).finished
    assert folder.progress(trial).decisions < 9000


def test_a_trial_that_ended_below_its_score_goes_on_in_a_longer_sweep(tmp_path: Path) -> None:
    trial = Trial("ddqn", "ddqn", "CartPole-v1", 0, 300, schedule={"stop_at": 400.0})
    folder = SweepFolder(tmp_path)
    command = ["train", "--env", "CartPole-v1", "--agent", "ddqn", "--steps", "200", "--quiet", "--stop-at", "400"]
    assert main([*command, "--out", str(folder.run(trial))]) == 0
    assert folder.progress(replace(trial, steps=100)).finished
    assert folder.progress(replace(trial, steps=200)).finished
    assert not folder.progress(trial).finished
    assert main(trial.command(folder.run(trial))) == 0
    assert folder.progress(trial).finished
