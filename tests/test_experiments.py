"""Every experiment is complete, and its page is what its committed results say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bdqn.report.compare import Comparison, Result, write_results
from bdqn.report.experiment import PAGE, read_study
from bdqn.sweep.plan import read_sweep

ROOT = Path(__file__).parents[1] / "experiments"
EXPERIMENTS = sorted(path.parent for path in ROOT.glob("*/sweep.toml"))
NAMES = [folder.name for folder in EXPERIMENTS]

# Runs an analysis, and fails if it loaded what trains.
ANALYSE = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__'); sys.exit('torch' in sys.modules)"


def analyse(folder: Path, out: Path) -> str:
    words = [sys.executable, "-c", ANALYSE, str(folder / "analysis.py"), "--out", str(out)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return (out / PAGE).read_text()


def write(folder: Path, runs: dict[tuple[str, str, int], float], decisions: int) -> None:
    """Results as `bdqn compare` keeps them, of runs that had the same score all along."""
    step = np.array([0.5, 1.0]) * decisions
    results = [
        Result(env, group, seed, decisions, value, value, value, step, np.full(2, value))
        for (env, group, seed), value in runs.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder, Comparison(tuple(results), ()))


def copy_of(experiment: str, tmp_path: Path) -> Path:
    """An experiment without its results."""
    folder = tmp_path / experiment
    folder.mkdir()
    for path in (ROOT / experiment).iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_there_are_experiments() -> None:
    assert {"cartpole", "minatar"} <= set(NAMES)


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=NAMES)
def test_an_experiment_has_its_pieces(folder: Path) -> None:
    readme = (folder / "README.md").read_text()
    for part in ("**Question.**", "**Run time.**", "**Finding.**", f"python experiments/{folder.name}/analysis.py"):
        assert part in readme, part
    for file in folder.glob("*.toml"):
        assert read_sweep(file).trials
        assert f"bdqn sweep experiments/{folder.name}/{file.name}" in readme


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=NAMES)
def test_a_page_is_what_the_results_say(folder: Path, tmp_path: Path) -> None:
    text = analyse(folder, tmp_path)
    if (folder / "results" / "runs.csv").exists():
        assert text == (folder / "results" / PAGE).read_text(), "run its analysis.py again"


GAMES = ("MinAtar/Breakout-v1", "MinAtar/Asterix-v1")


def test_the_page_of_minatar_states_the_floor_the_scores_and_the_target(tmp_path: Path) -> None:
    """Bayesian DQN's area is 1.5 times Double DQN's on the first game, and 0.8 times on the other."""
    folder = copy_of("minatar", tmp_path)
    floors = {"0.1": 5.0, "0.05": 4.0, "0.01": 4.5}
    groups = {f"ddqn exploration_final_eps={floor}": area for floor, area in floors.items()}
    tried = {(env, g, seed): area for env in GAMES for g, area in groups.items() for seed in (100, 101, 102)}
    write(folder / "results" / "floors", tried, 100_000)
    factors = dict(zip(GAMES, (1.5, 0.8), strict=True))
    base = {(env, "ddqn", seed): 1.0 + seed for env in GAMES for seed in range(10)}
    ours = {(env, "bdqn", seed): value * factors[env] for (env, _, seed), value in base.items()}
    write(folder / "results", base | ours, 200_000)
    page = analyse(folder, tmp_path / "out")
    assert "missing" not in page
    assert "The floor with the largest area over both games is 0.1." in page
    assert "Double DQN's floor in this comparison is 0.05." in page
    for score in ("final", "area", "evaluation"):
        assert f"| {GAMES[0]} | bdqn | {score} | 10 | 8.25 (" in page  # 1.5 times 5.5
    assert f"{GAMES[0]}: area ratio 1.500, lower end 1.500: the target of 0.9 is reached." in page
    assert f"{GAMES[1]}: area ratio 0.800, lower end 0.800: the target of 0.9 is missed." in page
    assert f"all: area ratio {1.2**0.5:.3f}, lower end {1.2**0.5:.3f}: the target of 0.9 is reached." in page
    assert "intervals of 90 %" in page
    assert (tmp_path / "out" / "curves.png").stat().st_size > 10_000


def test_missing_unfinished_and_foreign_trials_are_named(tmp_path: Path) -> None:
    folder = copy_of("cartpole", tmp_path)
    runs = {("CartPole-v1", group, seed): 1.0 + seed for group in ("dqn", "ddqn", "bdqn") for seed in range(10)}
    del runs["CartPole-v1", "bdqn", 7]
    runs["CartPole-v1", "stranger", 0] = 3.0
    write(folder / "results", runs, 90_000)
    found = read_study(folder / "sweep.toml", folder / "results").found
    assert "bdqn on CartPole-v1, seed 7 is missing." in found.remarks
    assert "stranger on CartPole-v1, seed 0 is not part of sweep.toml, and left out." in found.remarks
    assert "dqn on CartPole-v1, seed 0 has taken 90,000 of 100,000 decisions." in found.remarks
    assert found.groups == ["dqn", "ddqn", "bdqn"]
    assert len(found.results) == 29
    page = analyse(folder, tmp_path / "out")
    assert "- bdqn on CartPole-v1, seed 7 is missing." in page
    assert "- bdqn and ddqn have different seeds on CartPole-v1: they are not paired there." in page


def test_an_experiment_that_was_not_run_says_so(tmp_path: Path) -> None:
    page = analyse(copy_of("cartpole", tmp_path), tmp_path / "out")
    assert "None of the 30 trials of sweep.toml has results yet." in page
    assert not (tmp_path / "out" / "curves.png").exists()
