"""A request to terminate, or Ctrl-C, ends a run within seconds, with a checkpoint from which it goes on exactly."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bdqn.cli.running import run_training
from bdqn.config.memory import free_memory
from bdqn.learner import make
from bdqn.runs.progress import progress
from bdqn.runs.schedule import Schedule
from bdqn.runs.training import SEAL_FREQ, save
from bdqn.runs.training import train as train_run
from bdqn.runs.writer import RunWriter
from bdqn.storage.checkpoints import Checkpoints
from bdqn.storage.saved_agents import load
from support.cartpole import go_on, saved, status, train
from support.forks import Process, Server, wait_until
from support.processes import TESTS, elsewhere

LIMIT = 30  # seconds
STEPS = 700
FRAMES = 1_000_000  # the memory of the paper
TABLES = ("config.toml", "episodes.csv", "metrics.csv", "evaluations.csv")


def files(folder: Path, steps: int) -> dict[str, bytes]:
    """What must not depend on interruptions; these add checkpoints, so that only the last is compared."""
    last = sorted((folder / "checkpoints" / f"gen-{steps:012d}").iterdir())
    return {path.name: path.read_bytes() for path in [*(folder / name for name in TABLES), *last]}


def interrupt(process: Process, number: signal.Signals, folder: Path) -> None:
    """Send the signal, and see that what is promised comes of it."""
    began = time.monotonic()
    process.send(number)
    assert process.wait(LIMIT) == 130
    print(f"{number.name}: {time.monotonic() - began:.2f} s to the exit")
    assert process.errors == ""
    assert status(folder) == "interrupted"
    assert f"Interrupted after {saved(folder):,} decisions.\nResume it: bdqn resume {folder}\n" in process.output


@pytest.fixture(scope="module")
def unharmed(forks: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("unharmed") / "run"
    assert forks.run(*train(folder, STEPS)).code == 0
    return files(folder, STEPS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_saves_the_run_where_it_is_and_it_goes_on_from_there(
    forks: Server, tmp_path: Path, unharmed: dict[str, bytes], number: signal.Signals
) -> None:
    folder = tmp_path / "run"
    process = forks.start(*train(folder, STEPS))
    wait_until(lambda: saved(folder), process)
    interrupt(process, number, folder)
    assert forks.run("inspect", str(folder)).code == 0
    again = forks.run("resume", str(folder), "--quiet")
    assert (again.code, again.errors) == (0, "")
    assert status(folder) == "finished"
    assert files(folder, STEPS) == unharmed


@pytest.mark.parametrize("steps", [500, 300], ids=["on-the-way", "at-the-end"])
def test_an_evaluation_that_a_signal_cuts_short_is_redone(forks: Server, tmp_path: Path, steps: int) -> None:
    unharmed, folder = tmp_path / "unharmed", tmp_path / "run"
    long = ("--eval-episodes", "120")
    process = forks.start(*train(folder, steps), *long)
    # The row of decision 300 is written just before the evaluation that is due then.
    wait_until(lambda: (folder / "metrics.csv").exists() and "\n300," in (folder / "metrics.csv").read_text(), process)
    interrupt(process, signal.SIGTERM, folder)
    assert saved(folder) == 300
    assert not (folder / "evaluations.csv").exists()
    assert forks.run("resume", str(folder), "--quiet").code == 0
    assert status(folder) == "finished"
    assert forks.run(*train(unharmed, steps), *long).code == 0
    assert all((folder / name).read_bytes() == (unharmed / name).read_bytes() for name in TABLES)
    assert (folder / "evaluations.csv").read_text().startswith("step,mean_reward,std_reward,episodes\n300,")


REFITS = {
    "learning_starts": 4_400,
    "posterior_batch_size": 4_300,  # a refit draws so many of the transitions, and looks at them in several parts
    "posterior_update_interval": 50,
    "target_update_interval": 40,
    "features": 16,
    "buffer_size": 4_800,
}


def train_until(folder: Path, steps: int, stop_in_refit: int | None) -> int:
    """Train, or go on training, until the so manyth look at whether to stop while a refit is due; how many there were.

    Rows are written, and the agent is evaluated, at decisions that are also those of a refit.
    """
    schedule = Schedule(log_freq=50, eval_freq=50, eval_episodes=1)
    checkpoints = Checkpoints(folder / "checkpoints")
    folder.mkdir(exist_ok=True)
    restored = checkpoints.load() if checkpoints.paths() else None
    learner = restored.learner if restored else make("bdqn", "CartPole-v1", seed=5, **REFITS)
    going_on = {"state": restored.run, "resumed": {}} if restored else {}
    looks = 0

    def stop() -> bool:
        nonlocal looks
        looks += learner.agent.fit_due
        return stop_in_refit is not None and looks >= stop_in_refit

    with RunWriter(folder, learner, steps, schedule, **going_on) as writer, progress(steps, quiet=True) as display:
        complete = train_run(learner, steps, writer, checkpoints, schedule, display, stop)
    assert complete == (stop_in_refit is None or looks < stop_in_refit)
    assert learner.agent.fit_due == (not complete)
    return looks


def test_a_refit_that_is_told_to_stop_is_made_up_for(tmp_path: Path) -> None:
    """On Atari it takes longer than whoever terminates a run will wait."""
    steps = 4_500  # the first decision of learning, and two refits after it, the last at the very end
    unharmed = tmp_path / "unharmed"
    looks = train_until(unharmed, steps, None)
    assert looks >= 9
    for cut in range(1, looks + 1):
        folder = tmp_path / f"cut-{cut}"
        train_until(folder, steps, cut)
        assert saved(folder) in (4_400, 4_450, 4_500)
        train_until(folder, steps, 1)  # again, at once
        train_until(folder, steps, None)
        assert files(folder, steps) == files(unharmed, steps)


def test_an_agent_whose_refit_was_cut_short_can_be_used_without_its_memory(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train_until(folder, 4_500, 5)
    learner = load(folder)
    assert np.isfinite(learner.q_posterior(np.zeros(4)).std).all()
    learner.learn(10)
    assert not learner.agent.fit_due


@pytest.mark.long
def test_signals_at_random_moments_lose_nothing(forks: Server, tmp_path: Path) -> None:
    """Also while it starts, while it saves, and a second one while it is about to end because of the first."""
    steps, unharmed, folder = 6_000, tmp_path / "unharmed", tmp_path / "run"
    assert forks.run(*train(unharmed, steps)).code == 0
    rng = random.Random(17)
    codes: list[int] = []
    slowest = 0.0
    while True:
        process = forks.start(*go_on(folder, steps))
        if len(codes) < 60:
            time.sleep(rng.uniform(0, 0.5))
        else:
            process.wait()
        before = saved(folder)
        began = time.monotonic()
        process.send(rng.choice([signal.SIGTERM, signal.SIGINT]))
        if rng.random() < 0.3:
            time.sleep(rng.uniform(0, 0.03))
            process.send(signal.SIGINT)
        process.wait(LIMIT)
        slowest = max(slowest, time.monotonic() - began)
        assert "Traceback" not in process.errors
        assert saved(folder) >= before
        assert process.code is not None
        codes.append(process.code)
        if process.code == 0:
            break
        # Before it trains there is nothing to save, and a signal ends it as it does any program.
        assert process.code in (130, -signal.SIGTERM)
    assert files(folder, steps) == files(unharmed, steps)
    counts = {code: codes.count(code) for code in sorted(set(codes))}
    print(f"{len(codes)} signals, exit codes {counts}, the slowest exit took {slowest:.2f} s")


def full_memory(path: str, frames_held: int, log_freq: int, learning_starts: int) -> None:
    """Train with a replay memory of Atari frames that is full, until a signal; runs in its own process."""
    folder = Path(path)
    learner = make("bdqn", "ALE/Pong-v5", buffer_size=frames_held, learning_starts=learning_starts)
    checkpoints = Checkpoints(folder / "checkpoints")
    schedule = Schedule(log_freq=log_freq)
    writer = RunWriter(folder, learner, FRAMES, schedule)
    replay, rng = learner.agent.replay, np.random.default_rng(0)
    frames = rng.integers(256, size=(1_000, *learner.agent.spec.shape), dtype=np.uint8)
    no = np.zeros(1, np.bool_)
    began = time.monotonic()
    for i in range(frames_held + 1_000):
        obs = frames[i % 1_000][None]
        replay.add(np.zeros(1, np.int64), np.ones(1), obs, no, no, obs)
        if i % SEAL_FREQ == 0:
            checkpoints.write_segments(learner)
    filled = time.monotonic()
    save(learner, writer, checkpoints)
    figures = {"filled": filled - began, "saved": time.monotonic() - filled}
    (folder / "figures.json").write_text(json.dumps(figures))
    sys.exit(run_training(learner, FRAMES, writer, checkpoints, schedule, quiet=True))


def load_full_memory(path: str) -> tuple[float, int, int]:
    """Seconds to load it again, transitions that can be sampled, and the most memory it took, in bytes."""
    began = time.monotonic()
    learner = Checkpoints(path).load().learner
    seconds = time.monotonic() - began
    return seconds, len(learner.agent.replay), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def terminate_full_memory(
    folder: Path, frames_held: int, log_freq: int, learning_starts: int, rows: int, pause: float
) -> float:
    """Seconds from SIGTERM, a ``pause`` after so many rows of metrics, to the exit of a run with a full memory."""
    folder.mkdir()
    code = "import sys; from reliability.test_r17_signals import full_memory; "
    code += f"full_memory(sys.argv[1], {frames_held}, {log_freq}, {learning_starts})"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        cwd=TESTS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            metrics = folder / "metrics.csv"
            while not metrics.exists() or metrics.read_text().count("\n") < rows + 1:
                assert process.poll() is None, process.communicate()
                time.sleep(0.05)
            time.sleep(pause)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=120)
            seconds = time.monotonic() - began
        finally:
            process.kill()
    assert process.returncode == 130, output
    assert status(folder) == "interrupted"
    return seconds


@pytest.mark.long
def test_a_full_memory_of_a_million_frames_is_saved_within_the_limit(tmp_path: Path) -> None:
    if free_memory() < 10e9:
        pytest.skip(f"a million frames need 8 GB of memory, here are {free_memory() / 1e9:.1f} GB")
    folder = tmp_path / "run"
    seconds = terminate_full_memory(folder, FRAMES, log_freq=100, learning_starts=50_000, rows=2, pause=0)
    assert seconds < LIMIT
    loaded, transitions, memory = elsewhere(load_full_memory, folder / "checkpoints")
    assert transitions > FRAMES - 10
    figures = json.loads((folder / "figures.json").read_text())
    size = sum(path.stat().st_size for path in (folder / "checkpoints" / "replay").iterdir())
    print(f"{size / 1e9:.2f} GB of segments were written in {figures['filled']:.0f} s, as the memory filled.")
    print(f"A checkpoint then paused training for {figures['saved']:.2f} s; SIGTERM to exit took {seconds:.2f} s.")
    print(f"Loading took {loaded:.0f} s and at most {memory / 1e9:.2f} GB of memory.")
    shutil.rmtree(folder)  # eight gigabytes


@pytest.mark.long
def test_a_refit_of_a_hundred_thousand_frames_does_not_delay_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # The first refit comes with decision 50, soon after the row of decision 40.
    seconds = terminate_full_memory(folder, 120_000, log_freq=40, learning_starts=50, rows=1, pause=3)
    (generation,) = (path.name for path in (folder / "checkpoints").glob("gen-*-refit-due"))
    assert generation == "gen-000000000050-refit-due"
    print(f"SIGTERM in a refit of 100,000 transitions: {seconds:.2f} s to the exit")
    assert seconds < LIMIT
    shutil.rmtree(folder)  # a gigabyte
