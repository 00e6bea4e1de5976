"""Every experiment is complete, and its page is what its committed results say."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bdqn.agents import AGENTS
from bdqn.cli import main
from bdqn.envs import family
from bdqn.envs.bsuite import bsuite_id_of
from bdqn.report.collect import collect, read_rows
from bdqn.report.compare import Comparison, Result, write_results
from bdqn.report.experiment import PAGE, read_study
from bdqn.report.studies import Scale, claim, run_studies
from bdqn.report.studies import main as run_main
from bdqn.sweep.plan import FULL, Sweep, Trial, read_scales, read_sweep

ROOT = Path(__file__).parents[1] / "experiments"
EXPERIMENTS = sorted(path.parent for path in ROOT.glob("*/sweep.toml"))
NAMES = [folder.name for folder in EXPERIMENTS]

# Runs an analysis as Python does, its folder first on the path, and fails if it loaded what trains.
ANALYSE = (
    "import os, runpy, sys; script = sys.argv.pop(1); sys.path[0] = os.path.dirname(script); "
    "runpy.run_path(script, run_name='__main__'); sys.exit('torch' in sys.modules)"
)


def run_analysis(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ANALYSE, str(folder / "analysis.py"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def page_of(folder: Path, out: Path, *words: object) -> str:
    done = run_analysis(folder, "--out", out, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return (out / PAGE).read_text()


def analyse(folder: Path, out: Path, *words: object) -> str:
    """The page, with each point of a list on one line."""
    return page_of(folder, out, *words).replace("\n  ", " ")


def write(folder: Path, runs: dict[tuple[str, str, int], float], decisions: int) -> None:
    """Results as `bdqn compare` keeps them, of runs that had the same score all along."""
    step = np.array([0.5, 1.0]) * decisions
    results = [
        Result(env, group, seed, decisions, value, value, value, step, np.full(2, value))
        for (env, group, seed), value in runs.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder, Comparison(tuple(results), ()))


def fill(results: Path, folder: Path, score: Callable[[Trial], float | None], scale: str = FULL) -> None:
    """Results of all of an experiment's sweeps, as if every trial with a score had been run to its end."""
    for file in folder.glob("*.toml"):
        scales = read_scales(file)
        if scale in scales:
            scores = {(t.env, t.group, t.seed): score(t) for t in scales[scale].trials}
            known = {trial: value for trial, value in scores.items() if value is not None}
            write(results if file.stem == "sweep" else results / file.stem, known, scales[scale].steps)


def copy_of(experiment: str, tmp_path: Path) -> Path:
    """An experiment without its results."""
    folder = tmp_path / experiment
    folder.mkdir()
    for path in (ROOT / experiment).iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_there_are_experiments() -> None:
    assert {"atari", "cartpole", "dropout", "learning_rate", "minatar", "sample_interval"} < set(NAMES)
    assert {"deep_sea", "what_does_the_work"} < set(NAMES)


SPEED = {"classic": 1_500, "minatar": 850, "atari": 120}  # bdqn's decisions per second and core, both of two being busy
COST = {  # of a decision, in bdqn's
    "random": 0.2,
    "dqn": 0.85,
    "ddqn": 0.85,
    "boltzmann": 0.85,
    "dropout": 1.2,
    "noisy": 1.2,
    "bbq": 2.0,
    "bdqn-deep": 1.5,
    "bootstrapped": 2.0,
}


def seconds_of(sweep: Sweep) -> float:
    """About how long a sweep takes on two cores."""
    costs = (trial.steps * COST.get(trial.agent, 1.0) / SPEED[family(trial.env)] for trial in sweep.trials)
    return sum(costs) / 2


def test_agents_that_cost_more_take_longer() -> None:
    trials = [Trial("", agent, "CartPole-v1", 0, 3_000) for agent in ("bdqn", "bdqn-deep", "bootstrapped")]
    assert seconds_of(Sweep(tuple(trials))) == pytest.approx(1 + 1.5 + 2)
    assert set(AGENTS) >= set(COST)


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=NAMES)
def test_a_quick_scale_takes_half_an_hour_and_a_full_one_a_night(folder: Path) -> None:
    """On two cores; but for Atari and all of bsuite, which take days and months, and say so."""
    readme = (folder / "README.md").read_text()
    seconds = {"quick": 0.0, FULL: 0.0}
    for file in folder.glob("*.toml"):
        assert f"bdqn sweep experiments/{folder.name}/{file.name} --scale quick" in readme
        for scale in seconds:
            sweep = read_sweep(file, scale)
            counts = sweep.trials[0].preset == "default" or scale == "quick"
            seconds[scale] += seconds_of(sweep) if counts else 0.0
    assert seconds["quick"] < 30 * 60
    assert seconds["quick"] < seconds[FULL]
    assert seconds[FULL] < 8 * 3600 or folder.name in ("atari", "bsuite")


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=NAMES)
def test_an_experiment_has_its_pieces(folder: Path) -> None:
    readme = (folder / "README.md").read_text()
    for part in ("**Question.**", "**Run time.**", "**Finding.**", f"python experiments/{folder.name}/analysis.py"):
        assert part in readme, part
    for file in folder.glob("*.toml"):
        assert read_sweep(file).trials
        assert f"bdqn sweep experiments/{folder.name}/{file.name}" in readme


KEPT_CSV = (  # what analyses read
    "runs.csv",
    "curves.csv",
    "solved.csv",
    "floods.csv",
    "random.csv",
    "logs.csv",
    "details.csv",
)


def leftovers(results: Path, made: Path, scales: Iterable[str] = ()) -> set[str]:
    """What the repository holds of results, but for other scales', that the analysis neither reads nor makes."""
    if not (results.is_dir() and shutil.which("git")):
        return set()
    listed = subprocess.run(["git", "ls-files"], cwd=results, capture_output=True, text=True).stdout.splitlines()
    files = {name for name in listed if (results / name).exists() and Path(name).name not in KEPT_CSV}
    return {name for name in files if Path(name).parts[0] not in scales and not (made / name).exists()}


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=NAMES)
def test_a_page_is_what_the_results_say(folder: Path, tmp_path: Path) -> None:
    text = page_of(folder, tmp_path)
    if any((folder / "results").glob("*.csv")):
        assert text == (folder / "results" / PAGE).read_text(), "run its analysis.py again"
    assert leftovers(folder / "results", tmp_path, read_scales(folder / "sweep.toml")) == set()


KEPT = [(folder, scale) for folder in EXPERIMENTS for scale in read_scales(folder / "sweep.toml") if scale != FULL]
KEPT = [(folder, scale) for folder, scale in KEPT if (folder / "results" / scale).is_dir()]


@pytest.mark.parametrize(("folder", "scale"), KEPT, ids=[f"{folder.name}-{scale}" for folder, scale in KEPT])
def test_a_page_of_a_scale_is_what_its_results_say(folder: Path, scale: str, tmp_path: Path) -> None:
    text = page_of(folder, tmp_path, "--scale", scale)
    assert text == (folder / "results" / scale / PAGE).read_text(), f"run its analysis.py --scale {scale} again"
    assert leftovers(folder / "results" / scale, tmp_path) == set()


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
    assert "stranger on CartPole-v1, seed 0 is not part of sweep.toml and is left out." in found.remarks
    assert "dqn on CartPole-v1, seed 0 has taken 90,000 of 100,000 decisions." in found.remarks
    assert found.groups == ["dqn", "ddqn", "bdqn"]
    assert len(found.results) == 29
    page = analyse(folder, tmp_path / "out")
    assert "- bdqn on CartPole-v1, seed 7 is missing." in page
    assert "- bdqn and ddqn have different seeds on CartPole-v1 and are not paired there." in page


GENERAL = [name for name in NAMES if name not in ("deep_sea", "bsuite")]  # which keep results of their own kind


@pytest.mark.parametrize("experiment", GENERAL)
def test_a_page_can_be_made_of_half_the_results(experiment: str, tmp_path: Path) -> None:
    """Every other group is there, one seed of the last of them is not, and nothing has come to its end."""
    folder = copy_of(experiment, tmp_path)
    for file in folder.glob("*.toml"):
        sweep = read_sweep(file)
        groups = list(dict.fromkeys(trial.group for trial in sweep.trials))
        groups = groups[1::2] or groups
        last = [trial for trial in sweep.trials if trial.group == groups[-1]][-1]
        runs = {(t.env, t.group, t.seed): 1.0 + t.seed for t in sweep.trials if t.group in groups and t is not last}
        part = folder / "results" if file.stem == "sweep" else folder / "results" / file.stem
        write(part, runs or {(last.env, last.group, last.seed): 1.0}, sweep.steps // 2)
    page = analyse(folder, tmp_path / "out")
    assert " is missing." in page
    assert f"has taken {sweep.steps // 2:,} of {sweep.steps:,} decisions." in page


def test_the_two_effects_are_told_apart(tmp_path: Path) -> None:
    """The Bayesian head adds 4, Thompson sampling 1, and both together 2 more; a floor of 0.1 costs 1."""
    folder = copy_of("what_does_the_work", tmp_path)

    def score(trial: Trial) -> float:
        bayesian, thompson = trial.group.startswith("bayesian"), "thompson" in trial.group
        floor = -1.0 if trial.settings.get("exploration_final_eps") == 0.1 else 0.0
        return 10.0 + trial.seed + 4 * bayesian + thompson + 2 * (bayesian and thompson) + floor

    fill(folder / "results", folder, score)
    page = analyse(folder, tmp_path / "out")
    assert "missing" not in page
    first, named, _ = page.split("Epsilon floor ")[1:]
    assert named.startswith("0.05;")
    for kind in ("final", "area", "evaluation"):
        for env in GAMES:
            assert f"| {env} | head | {kind} | 5 | 5.00 (5.00 to 5.00) |" in named
            assert f"| {env} | exploration | {kind} | 5 | 2.00 (2.00 to 2.00) |" in named
            assert f"| {env} | interaction | {kind} | 5 | 2.00 (2.00 to 2.00) |" in named
            assert f"| {env} | exploration | {kind} | 5 | 3.00 (3.00 to 3.00) |" in first  # floor 0.1
        # The four cells' mean is 15.
        assert f"| all, share of the mean | head | {kind} | 5 | 0.33 (0.33 to 0.33) |" in named
    assert f"- {GAMES[0]}: head adds to the area: +5.00 (+5.00 to +5.00)." in named
    for figure in ("cells.png", "curves.png"):
        assert (tmp_path / "out" / figure).stat().st_size > 10_000


def test_a_seed_that_one_cell_lacks_is_no_part_of_the_effects(tmp_path: Path) -> None:
    folder = copy_of("what_does_the_work", tmp_path)
    lacking = ("gradient-thompson", GAMES[0], 4)
    fill(
        folder / "results",
        folder,
        lambda t: None if (t.group, t.env, t.seed) == lacking else 1000.0 if t.seed == 4 else 1.0 + t.seed,
    )
    page = analyse(folder, tmp_path / "out")
    assert f"| {GAMES[0]} | head | area | 4 | 0.00 (0.00 to 0.00) |" in page
    assert f"{GAMES[0]}: head cannot be told to change the area" in page


def test_a_learning_rate_that_breaks_an_agent_is_named(tmp_path: Path) -> None:
    folder = copy_of("learning_rate", tmp_path)
    shares = {"ddqn": [1.0, 1.1, 0.2, 0.1], "bdqn": [1.0, 1.0, 0.9, 0.6]}
    rates = [2.5e-4, 7.5e-4, 2.5e-3, 7.5e-3]
    fill(
        folder / "results",
        folder,
        lambda t: (1.0 + t.seed) * shares[t.agent][rates.index(t.settings["learning_rate"])],
    )
    page = analyse(folder, tmp_path / "out")
    assert "missing" not in page
    adam, rmsprop = page.split("## With the paper's RMSProp")
    ratio = "area over that at 1x is"
    for part in (adam, rmsprop):
        broken = "It has lost more than half: Double DQN is broken there."
        assert f"- {GAMES[0]}, Double DQN at 10x: {ratio} 0.200 (0.200 to 0.200), below 1. {broken}" in part
        assert f"- {GAMES[1]}, Double DQN at 3x: {ratio} 1.100 (1.100 to 1.100), above 1.\n" in part
        assert f"- all, Bayesian DQN at 10x: {ratio} 0.900 (0.900 to 0.900), below 1.\n" in part
        assert "Bayesian DQN is broken" not in part
        assert f"- {GAMES[0]}, Double DQN at 30x: evaluation over that at 1x is 0.100 (" in part
        assert f"- {GAMES[0]}, both at 1x: area ratio 1.000 (1.000 to 1.000), not distinguishable from 1.\n" in part
        assert f"- {GAMES[1]}, both at 10x: evaluation ratio 4.500 (4.500 to 4.500), above 1.\n" in part
    _, heads = page.split("## Head and exploration at ten times the rate, with Adam")
    for group in ("bdqn learning_rate=0.0025", "bayesian-epsilon", "gradient-thompson"):  # all are of agent bdqn
        assert f"- {GAMES[0]}, {group}: final over Double DQN's is 4.500 (4.500 to 4.500), above 1.\n" in heads
    for figure in ("adam.png", "rmsprop.png", "heads.png"):
        assert (tmp_path / "out" / figure).stat().st_size > 10_000


def test_a_score_of_nothing_is_broken_though_it_has_no_ratio(tmp_path: Path) -> None:
    folder = copy_of("learning_rate", tmp_path)
    dead = {(0, 7.5e-3), (1, 7.5e-3)}  # two of five seeds, at thirty times the preset's rate
    fill(folder / "results", folder, lambda t: 0.0 if (t.seed, t.settings["learning_rate"]) in dead else 1.0)
    adam, _ = analyse(folder, tmp_path / "out").split("## With the paper's RMSProp")
    sentence = f"- {GAMES[0]}, Bayesian DQN at 30x: area over that at 1x is not known: a seed scored nothing."
    assert f"{sentence}\n" in adam, "three seeds of five are as they were"
    fill(folder / "results", folder, lambda t: 0.0 if t.settings["learning_rate"] == 7.5e-3 else 1.0)
    adam, _ = analyse(folder, tmp_path / "out").split("## With the paper's RMSProp")
    assert f"{sentence} It has lost more than half: Bayesian DQN is broken there.\n" in adam


def test_two_seeds_tell_nothing(tmp_path: Path) -> None:
    """However far apart: the interval of two excludes the truth every other time."""
    folder = copy_of("learning_rate", tmp_path)

    def score(trial: Trial) -> float | None:
        return (0.01 if trial.settings["learning_rate"] == 7.5e-3 else 1.0) if trial.seed < 2 else None

    fill(folder / "results", folder, score)
    page = analyse(folder, tmp_path / "out")
    assert "Double DQN at 30x: area over that at 1x is 0.010 (0.010 to 0.010), 2 seeds, too few to tell.\n" in page
    assert "broken" not in page.split("\n", 1)[1]


def test_scores_over_more_decisions_than_a_scale_has_are_named(tmp_path: Path) -> None:
    folder, quick = copy_of("minatar", tmp_path), tmp_path / "quick"
    fill(quick, folder, lambda t: 1.0 + t.seed, "quick")
    assert "but this scale has" not in analyse(folder, tmp_path / "a", "--scale", "quick", "--results", quick)
    fill(quick, folder, lambda t: 1.0 + t.seed)
    page = analyse(folder, tmp_path / "b", "--scale", "quick", "--results", quick)
    assert f"- {GAMES[0]}: scores cover 200,000 decisions, but this scale has 100,000." in page


def test_intervals_of_draws_stand_beside_a_draw_per_episode(tmp_path: Path) -> None:
    folder = copy_of("sample_interval", tmp_path)
    fill(
        folder / "results",
        folder,
        lambda t: (1.0 + t.seed) * {1: 0.5, 1_000: 1.0}.get(t.settings.get("sample_interval", 1_000), 2.0),
    )
    page = analyse(folder, tmp_path / "out")
    assert "missing" not in page
    ratio = "area over that with a draw per episode is"
    assert f"- {GAMES[0]}, steps sample_interval=1: {ratio} 0.500 (0.500 to 0.500), below 1." in page
    assert (
        f"- {GAMES[0]}, acting acting_sample_interval=10: {ratio} 1.000 (1.000 to 1.000), not distinguishable from 1."
        in page
    )
    difference = "area minus that with a draw per episode is"
    assert f"- bdqn/DeepSea10-v0, steps sample_interval=30: {difference} 3.000 (" in page
    assert f"- bdqn/DeepSea10-v0, steps sample_interval=100: {difference} 3.000 (1.800 to 4.200), above 0." in page
    for figure in ("minatar.png", "deep_sea.png"):
        assert (tmp_path / "out" / figure).stat().st_size > 10_000


def test_dropout_is_set_beside_double_dqn_and_random_actions(tmp_path: Path) -> None:
    folder = copy_of("dropout", tmp_path)
    scores = {"ddqn": 4.0, "bdqn": 5.0, "random": 1.0}
    fill(folder / "results", folder, lambda t: (1.0 + t.seed) * scores.get(t.agent, 2.0))
    page = analyse(folder, tmp_path / "out")
    assert "missing" not in page
    for rate, mask in product((0.5, 0.1), ("step", "episode")):
        group = f"dropout dropout_rate={rate} redraw={mask}"
        assert f"- {GAMES[0]}, {group} against ddqn: area ratio 0.500 (0.500 to 0.500), below 1." in page
        assert f"- {GAMES[1]}, {group} against random: final ratio 2.000 (2.000 to 2.000), above 1." in page
    assert "bdqn against" not in page


def test_the_page_of_cartpole_has_all_agents(tmp_path: Path) -> None:
    folder = copy_of("cartpole", tmp_path)
    fill(folder / "results", folder, lambda t: 100.0 + t.seed)
    _, page = analyse(folder, tmp_path / "out").split("## Every agent that learns")
    assert "missing" not in page
    younger = {"bdqn-explore", "bbq", "dqn-counts", "dqn-cts"}  # than the experiment
    for agent in set(AGENTS) - {"random"} - younger:
        assert f"| CartPole-v1 | {agent} | area | 5 | 102.00 (" in page
    for figure in ("curves.png", "agents.png", "posteriors.png"):
        assert (tmp_path / "out" / figure).stat().st_size > 10_000


def test_a_game_is_finished_when_it_is_as_long_as_the_papers(tmp_path: Path) -> None:
    """Pong was run for 5 million decisions, Amidar for 100: 20 million are enough for one of them."""
    folder = copy_of("atari", tmp_path)
    write(folder / "results", {(f"ALE/{game}-v5", "bdqn", 0): 1.0 for game in ("Pong", "Amidar")}, 20_000_000)
    page = analyse(folder, tmp_path / "out")
    assert "bdqn on ALE/Amidar-v5, seed 0 has taken 20,000,000 of 100,000,000 decisions." in page
    assert "bdqn on ALE/Pong-v5, seed 0 has taken" not in page


def test_a_quick_sweep_is_judged_by_its_own_scale_and_kept_apart(tmp_path: Path) -> None:
    folder, quick = copy_of("minatar", tmp_path), tmp_path / "quick"
    fill(folder / "results", folder, lambda t: 1.0 + t.seed)
    fill(quick, folder, lambda t: 1.0 + t.seed, "quick")
    done = run_analysis(folder, "--scale", "quick", "--results", quick)
    assert (done.returncode, done.stderr) == (0, "")
    page = (quick / PAGE).read_text()
    assert "missing" not in page
    assert "of 200,000 decisions" not in page
    assert f"| {GAMES[0]} | bdqn | area | 4 | 2.50 (" in page
    assert not (folder / "results" / PAGE).exists()
    assert "is missing." in analyse(folder, tmp_path / "full", "--results", quick)  # judged by the full scale


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--scale", "tiny"), "there are no results of scale tiny in"),
        (("--results", "nowhere"), "nowhere does not exist: give the directory that bdqn compare --out wrote."),
        (("--scale", "quik", "--results", "."), "unknown scale 'quik'; did you mean quick"),
    ],
)
def test_a_page_that_cannot_be_meant_is_refused(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = run_analysis(ROOT / "cartpole", *words, "--out", tmp_path / "out")
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_experiment_that_was_not_run_says_so(tmp_path: Path) -> None:
    page = analyse(copy_of("cartpole", tmp_path), tmp_path / "out")
    assert "None of the 30 trials of sweep.toml has results yet." in page
    assert not (tmp_path / "out" / "curves.png").exists()


# --- the growth of DeepSea ----------------------------------------------------------------------------------------


def test_growth_has_an_interval_and_what_is_not_fitted_is_said(tmp_path: Path) -> None:
    """Two runs at N = 10 took 100 and 200 episodes, one at N = 100 took 1,000: a resample has both, or one twice."""
    folder = copy_of("deep_sea", tmp_path)
    results = folder / "results"
    results.mkdir()
    episodes = {
        ("wide", 10): (100, 200),
        ("wide", 100): (1000,),
        ("square", 10): (100, 100),
        ("square", 20): (400, 400),
        ("small", 10): (50, 60),
        ("small", 20): (50, ""),
        ("never", 10): ("", ""),
        ("neither", 20): (70, ""),
    }
    with (results / "solved.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("env", "group", "seed", "episodes", "first", "solved", "last_100"))
        for (group, size), solved in episodes.items():
            for seed, episode in enumerate(solved):
                writer.writerow((f"bdqn/DeepSea{size}-v0", group, seed, 2_000, episode, episode, "1.00"))
    page = analyse(folder, tmp_path / "out")
    grow = "episodes to solve grow as"
    # log10(1000 / 200) and log10(1000 / 100): a quarter of the resamples each, so both ends of 90 %.
    assert f"- wide: {grow} N^0.85 (90 %: 0.70 to 1.00), over N = 10 (2 runs), 100 (1 run)." in page
    assert "- wide: sizes with a single run do not widen the interval, though they should." in page
    assert f"- square: {grow} N^2.00 (90 %: 2.00 to 2.00), over N = 10 (2 runs), 20 (2 runs)." in page
    assert "square: sizes with a single run" not in page
    assert "- small: N = 10 alone was solved on all runs, which gives no growth to fit." in page
    assert "- No size was solved on all runs by never, neither: no growth to fit." in page
    assert (tmp_path / "out" / "growth.png").stat().st_size > 10_000


# --- the anchors --------------------------------------------------------------------------------------------------


def test_the_page_of_anchors_has_the_episodes_of_each_seed(tmp_path: Path) -> None:
    folder = copy_of("anchors", tmp_path)
    fill(folder / "results", folder, lambda t: 1.0 + t.seed)
    rows = [("bdqn/BinaryTree50-v0", "bdqn-explore", 1, 400, 7, 30), ("bdqn/BinaryTree50-v0", "bdqn", 0, 900, "", "")]
    rows += [("bdqn/BinaryTree50-v0", "bdqn-explore", 0, 300, 8, "")]
    with (folder / "results" / "solved.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("env", "group", "seed", "episodes", "first", "solved"), *rows])
    chain, trees = analyse(folder, tmp_path / "out").split("## Binary trees")
    assert "| BinaryTree50 | bdqn-explore | 8, 7 | -, 30 | 300, 400 |" in trees
    assert "| BinaryTree50 | bdqn | - | - | 900 |" in trees
    assert "first found" not in chain, "nothing was kept of it"
    assert (tmp_path / "out" / "trees.png").stat().st_size > 10_000


# --- the table of MinAtar -------------------------------------------------------------------------------------------


def test_the_table_of_minatar_says_what_was_chosen_and_who_is_better(tmp_path: Path) -> None:
    """The smallest rate is best for the Bayesian agents on one game, but not over both; epsilons do not matter."""
    folder = copy_of("minatar_table", tmp_path)

    def score(trial: Trial) -> float:
        if trial.steps == 100_000:
            return (1.0 + trial.seed - 200) * (1.5 if trial.agent == "bdqn" else 1.0)
        rate = {8e-5: 4.0, 2.5e-4: 3.0, 7.5e-4: 1.0}[trial.settings["learning_rate"]]
        small = trial.settings["learning_rate"] == 8e-5 and trial.env == GAMES[0]
        return rate / 4 if small and trial.agent == "bdqn" else rate

    fill(folder / "results", folder, score)
    page = analyse(folder, tmp_path / "out")
    assert "missing" not in page
    assert "| bdqn | learning_rate=0.00025 prior_var=0.1 | 3 | another |" in page
    assert "| ddqn | learning_rate=8e-05 exploration_final_eps=0.01 | 4 | another |" in page
    assert "- ddqn: sweep.toml does not have the chosen learning_rate=8e-05 exploration_final_eps=0.01." in page
    assert "- all, bdqn over ddqn: area ratio 1.500 (1.500 to 1.500), above 1." in page
    assert "- all, noisy over ddqn: area ratio 1.000 (1.000 to 1.000), not distinguishable from 1." in page
    assert "| game | ddqn | bdqn | bdqn-explore | bootstrapped-prior | noisy | dqn-counts |" in page
    assert f"| {GAMES[0]} | 3.00 (" in page
    sweep = folder / "sweep.toml"
    sweep.write_text(
        sweep.read_text().replace("2.5e-4\nexploration_final_eps = 0.05", "8e-5\nexploration_final_eps = 0.01")
    )
    page = analyse(folder, tmp_path / "again")
    assert "| ddqn | learning_rate=8e-05 exploration_final_eps=0.01 | 4 | the same |" in page
    assert "- ddqn: sweep.toml does not have" not in page


# --- what is left after a flood -----------------------------------------------------------------------------------


def test_what_is_left_of_the_way_is_counted_after_every_flood() -> None:
    """Twenty decisions are the way: three of these episodes went all of it, and one more came after the last."""
    figures_of = run_of("forgetting", "collect").figures_of
    episodes, floods, lost, *after = figures_of("bdqn/Flood-v0", np.array([3.0, 1500, 10, 20, 1800, 5]))
    assert (episodes, floods, lost) == (6, 3, "0.67")  # two failures after the first of three
    assert after[:4] == ["0.583", "0.625", "1.000", "0.250"]  # (10, 20, 5), (20, 5), (20) and (5) of 20
    assert set(after[4:]) == {""}
    assert figures_of("bdqn/Flood-v0", np.array([3.0, 19]))[:4] == (2, 0, "", "")


def test_the_page_of_forgetting_says_what_is_left(tmp_path: Path) -> None:
    folder = copy_of("forgetting", tmp_path)
    results = folder / "results"
    results.mkdir()
    with (results / "floods.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("env", "group", "seed", "episodes", "floods", "lost", *(f"after_{n}" for n in range(1, 11))))
        for seed in range(2):
            writer.writerow(("bdqn/Flood-v0", "no-cure", seed, 90, 2, 30, *[0.05] * 10))
            writer.writerow(("bdqn/Flood-v0", "stored-thinly", seed, 9, 4, 0.5, 0.9, *[""] * 9))
    page = analyse(folder, tmp_path / "out")
    assert "| no-cure | 2 | 2.00 (2.00 to 2.00) | 0.05 (0.05 to 0.05) | 30.00 (30.00 to 30.00) |" in page
    assert "| stored-thinly | 2 | 4.00 (4.00 to 4.00) | 0.90 (0.90 to 0.90) | 0.50 (0.50 to 0.50) |" in page
    assert (tmp_path / "out" / "floods.png").stat().st_size > 10_000


# --- experiments that have studies instead of a sweep -----------------------------------------------------------------

LINEAR = ROOT / "linear_regret"
FIGURES = {
    "linear_exploration": ("boldness", "rivals", "bayesian-regret", "optimism", "lemmas"),
    "spread_against_counts": ("spread",),
    "linear_regret": ("regret-in-t", "regret-in-d-and-h", "coverage", "prior-scale", "deep-sea", "widths"),
}


def run_of(experiment: str, script: str = "run") -> ModuleType:
    """Its run.py, or another script of it."""
    spec = spec_from_file_location(f"{experiment}_{script}", ROOT / experiment / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def linear() -> ModuleType:
    return run_of("linear_regret")


def tiny(linear: ModuleType, name: str = "tiny") -> Scale:
    """A scale that takes seconds."""
    return Scale(name, seeds=2, instances=2, episodes=dict.fromkeys(linear.FULL.episodes, 10) | {"deep-sea": 1})


@pytest.mark.parametrize("experiment", FIGURES)
def test_the_page_of_studies_is_what_the_results_say(experiment: str, tmp_path: Path) -> None:
    results, figures = ROOT / experiment / "results", {f"{name}.png" for name in FIGURES[experiment]}
    assert page_of(ROOT / experiment, tmp_path) == (results / PAGE).read_text(), "run its analysis.py again"
    assert {path.name for path in tmp_path.iterdir()} == {PAGE, *figures}
    assert {path.name for path in results.glob("*.png")} == figures


@pytest.mark.parametrize("experiment", FIGURES)
def test_the_committed_results_are_of_the_full_scale(experiment: str) -> None:
    full, quick = run_of(experiment).SCALES
    claim(ROOT / experiment / "results", full)
    assert (full.name, quick.name) == ("full", "quick")
    assert full.seeds > quick.seeds
    readme = (ROOT / experiment / "README.md").read_text()
    for command in ("run.py", "run.py --scale quick", f"analysis.py --scale quick --results out/{experiment}/quick"):
        assert f"python experiments/{experiment}/{command}" in readme


@pytest.mark.parametrize("experiment", FIGURES)
def test_all_studies_run_and_are_drawn(experiment: str, tmp_path: Path) -> None:
    module = run_of(experiment)
    run_studies(module.STUDIES, list(module.STUDIES), tiny(module), tmp_path / "results")
    page = analyse(ROOT / experiment, tmp_path / "out", "--scale", "tiny", "--results", tmp_path / "results")
    assert "Scale tiny: 2 seeds, 2 instances for" in page
    assert "not been run" not in page
    assert {path.name for path in (tmp_path / "out").iterdir()} == {PAGE, *(f"{n}.png" for n in FIGURES[experiment])}


def test_interrupted_studies_go_on_where_they_were(
    linear: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["widths", "prior-scale", "deep-sea"]
    run_studies(linear.STUDIES, names, tiny(linear), tmp_path / "undisturbed")
    out = tmp_path / "out"

    def interrupted(scale: Any) -> tuple[tuple[str, ...], Iterator[Any]]:
        columns, rows = linear.prior_scale(scale)

        def some() -> Iterator[Any]:
            yield next(rows)
            raise KeyboardInterrupt

        return columns, some()

    with monkeypatch.context() as patch:
        patch.setitem(linear.STUDIES, "prior-scale", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_studies(linear.STUDIES, names, tiny(linear), out)
    assert {path.name for path in out.iterdir()} == {"scale.toml", "widths.csv"}
    page = analyse(LINEAR, tmp_path / "half", "--scale", "tiny", "--results", out)
    assert "- prior-scale has not been run yet." in page
    assert "![widths](widths.png)" in page
    with monkeypatch.context() as patch:
        patch.delitem(linear.STUDIES, "widths")  # so that it cannot be run again
        run_studies(linear.STUDIES, names, tiny(linear), out)
    for path in (tmp_path / "undisturbed").iterdir():
        assert (out / path.name).read_bytes() == path.read_bytes()


def test_results_go_to_a_directory_of_their_scale(
    linear: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scales = [tiny(linear, name) for name in ("full", "quick")]
    monkeypatch.setattr(sys, "argv", ["run.py", "widths", "--scale", "quick"])
    run_main(linear.STUDIES, scales, linear.OUT)
    assert (tmp_path / "out" / "linear_regret" / "quick" / "widths.csv").exists()
    monkeypatch.setattr(sys, "argv", ["run.py", "widths"])
    run_main(linear.STUDIES, scales, linear.OUT)
    assert (tmp_path / "out" / "linear_regret" / "full" / "widths.csv").exists()


def test_results_of_another_scale_are_neither_overwritten_nor_mistaken(
    linear: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run_studies(linear.STUDIES, ["widths"], tiny(linear), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(SystemExit, match="holds other results than those of scale quick"):
        run_studies(linear.STUDIES, ["coverage"], linear.FULL.quick(), out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    monkeypatch.setattr(sys, "argv", ["run.py", "width", "--out", str(out)])
    with pytest.raises(SystemExit):
        run_main(linear.STUDIES, linear.SCALES, linear.OUT)
    assert "there is no study 'width'; did you mean widths?" in capsys.readouterr().err
    for words, message in (
        (("--results", out), "holds results of scale tiny: say --scale tiny."),
        (("--results", tmp_path), "scale.toml does not exist: nothing was run there."),
        (("--results", "nowhere"), "give the directory that run.py --out wrote."),
    ):
        done = run_analysis(LINEAR, *words, "--out", tmp_path / "page")
        assert done.returncode != 0
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "page").exists()


def test_collect_keeps_finished_runs_and_replaces_those_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep, out, kept = tmp_path / "sweep.toml", tmp_path / "out", tmp_path / "kept.csv"
    sweep.write_text('steps = 300\nseeds = 2\nenvironments = ["bdqn/DeepSea10-v0"]\n[agents.random]\n')
    assert main(["sweep", str(sweep), "--out", str(out), "--quiet"]) == 0
    meta = next(out.glob("trials/*/meta.json"))
    meta.write_text(meta.read_text().replace('"finished"', '"running"'))
    monkeypatch.setattr("sys.argv", ["collect.py", str(out), "--out", str(kept)])
    for _ in range(2):
        collect(None, kept, ("episodes", "best"), lambda env, returns: (len(returns), f"{env} {returns.max():.2f}"))
    (row,) = read_rows(kept)
    assert (row["env"], row["group"], row["episodes"]) == ("bdqn/DeepSea10-v0", "random", "30")
    assert row["best"].startswith("bdqn/DeepSea10-v0 ")
    assert capsys.readouterr().out.count("is not finished, and left out.") == 2


# --- experiments that measure trained agents --------------------------------------------------------------------------

MEASURED = {"calibration": ("coverage",), "safety": ("acting", "spread")}


@pytest.mark.parametrize("experiment", MEASURED)
def test_the_page_of_measurements_is_what_the_results_say(experiment: str, tmp_path: Path) -> None:
    results, figures = ROOT / experiment / "results", {f"{name}.png" for name in MEASURED[experiment]}
    assert page_of(ROOT / experiment, tmp_path) == (results / PAGE).read_text(), "run its analysis.py again"
    assert {path.name for path in tmp_path.iterdir()} == {PAGE, *figures}
    readme = (ROOT / experiment / "README.md").read_text()
    for part in ("**Question.**", "**Run time.**", "**Finding.**", f"python experiments/{experiment}/measure.py"):
        assert part in readme


@pytest.mark.parametrize("experiment", MEASURED)
def test_agents_are_measured_once_and_a_page_is_made_of_it(
    experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env = "bdqn/StochasticDeepSea10-v0"
    trials = ["trial,group,agent,env,seed", f"a,bdqn,bdqn,{env},0", f"b,bdqn,bdqn,{env},1"]
    (tmp_path / "trials.csv").write_text("\n".join(trials) + "\n")
    words = ["--env", env, "--agent", "bdqn", "--steps", "300", "--learning-starts", "100", "--features", "16"]
    assert main(["train", *words, "--quiet", "--out", str(tmp_path / "trials" / "a")]) == 0
    (tmp_path / "trials" / "b").mkdir()
    module = run_of(experiment, "measure")
    monkeypatch.setattr(module, "TESTING", 20)
    out = tmp_path / "results" / ("coverage.csv" if experiment == "calibration" else "")
    monkeypatch.setattr(sys, "argv", ["measure.py", str(tmp_path), "--out", str(out)])
    module.main()
    assert f"{env} bdqn 0: measured" in capsys.readouterr().out
    kept = {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()}
    module.main()
    assert f"{env} bdqn 0: measured" not in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()} == kept
    page = analyse(ROOT / experiment, tmp_path / "out", "--results", tmp_path / "results")
    assert f"| {env} | " in page
    assert (tmp_path / "out" / f"{MEASURED[experiment][0]}.png").stat().st_size > 10_000


# --- bsuite ---------------------------------------------------------------------------------------------------


def test_the_sweeps_of_bsuite_hold_all_of_it_and_a_subset_that_is_not_picked() -> None:
    """From the first setting to the last in equal steps; but discounting_chain's settings repeat every five."""
    from bsuite import sweep as known

    explored = {name.split("/")[0] for name in known.TAGS["exploration"]}
    for file, episodes in (("sweep", 10_000), ("control", 1_000)):
        scales = read_scales(ROOT / "bsuite" / f"{file}.toml")
        ids = {name: {bsuite_id_of(trial.env) for trial in scale.trials} for name, scale in scales.items()}
        assert ids[FULL] == {name for name in known.SWEEP if known.EPISODES[name] == episodes}
        assert {trial.schedule["max_episodes"] for trial in scales[FULL].trials} == {episodes}
        wanted = set()
        for experiment in {name.split("/")[0] for name in ids[FULL]}:
            last = sum(name.startswith(f"{experiment}/") for name in known.SWEEP) - 1
            spread = np.linspace(0, last, 6 if experiment in explored else 3).round().astype(int)
            wanted |= {f"{experiment}/{n}" for n in ((0, 2, 4) if experiment == "discounting_chain" else spread)}
        assert ids["subset"] == ids["short"] == wanted
        assert {name.split("/")[0] for name in ids["quick"]} == {name.split("/")[0] for name in wanted}


BSUITE_LOG = "agent,bsuite_id,steps,episode,total_return,episode_len,episode_return,total_regret,total_bad_episodes"


def test_the_page_of_bsuite_has_its_scores_and_what_follows_from_them(tmp_path: Path) -> None:
    """Regret of 800 in 1,600 episodes of catch is 0.5, of at most 1.6; sizes 10 and 50 were solved, or one of them."""
    regrets = {"bdqn-explore": 1120.0, "ddqn": 800.0, "bootstrapped-prior": 800.0}
    rows = [
        *(f"{agent},catch/{n},14400,1600,0,9,0,{regret}," for n in (0, 10, 19) for agent, regret in regrets.items()),
        *(f"{agent},deep_sea/0,10000,1000,0,10,0,,{850 if agent == 'ddqn' else 950}" for agent in regrets),
        *(f"{agent},deep_sea/20,50000,1000,0,50,0,,{850 if 'explore' in agent else 950}" for agent in regrets),
        "ddqn,deep_sea/1,12000,1000,0,12,0,,500",
    ]
    (tmp_path / "logs.csv").write_text("\n".join([BSUITE_LOG, *rows]) + "\n")
    page = analyse(ROOT / "bsuite", tmp_path / "out", "--results", tmp_path, "--scale", "subset")
    assert "deep_sea/1 is not part of this scale and is left out." in page
    assert "| catch | 0.56 | 0.69 | 0.69 |" in page
    # Solved before dithering would: size 10 needs fewer than 1,124 episodes, and size 50 less than for ever.
    assert "| deep_sea | 0.50 | 0.50 | 0.00 |" in page
    assert "- Exploration: bdqn-explore 0.50, above bootstrapped-prior's 0.00." in page
    worse = "basic (0.56 against 0.69), credit assignment (0.56 against 0.69)"
    assert f"- Other scores of bdqn-explore more than 0.05 below ddqn's: {worse}." in page
    assert "| catch | 3 | 10,000 | 3, 16% | - | 3, 16% | - | 3, 16% |" in page
    # Of catch's 10,000 episodes 8,400 of 9 decisions are missing, three times; of DeepSea's, 9,000 of 10 and of 50.
    assert "bdqn-explore: 0 of 78 settings have all of bsuite's episodes, 73 were not run." in page
    assert "The unfinished ones lack about 0.8 million decisions." in page
    assert (tmp_path / "out" / "radar.png").stat().st_size > 10_000
    (tmp_path / "logs.csv").write_text("\n".join([BSUITE_LOG, *rows[1:], "ddqn,mnist/0,50,50,0,1,0,90,"]) + "\n")
    page = analyse(ROOT / "bsuite", tmp_path / "out", "--results", tmp_path, "--scale", "subset")
    assert "- ddqn has no score of mnist: that takes 10,000 episodes." in page
    assert page.count("were not run on the same settings: their scores are not compared.") == 2
    assert "above" not in page


def test_logs_of_bsuites_own_agents_and_of_ours_are_kept_and_scored_as_bsuite_would(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import bsuite
    from bsuite.experiments import summary_analysis
    from bsuite.logging import csv_load

    file = tmp_path / "two.toml"
    envs = ["bsuite/catch-0-v0", "bsuite/umbrella_length-0-v0"]
    file.write_text(f"steps = 900\nseeds = 1\nenvironments = {envs}\n[agents.random]\n")
    assert main(["sweep", str(file), "--out", str(tmp_path / "two"), "--quiet"]) == 0
    for name in ("catch/0", "umbrella_length/0"):
        env = bsuite.load_and_record(name, str(tmp_path / "theirs"))
        for _ in range(3_000):
            env.step(0)
    monkeypatch.syspath_prepend(str(ROOT / "bsuite"))
    script = run_of("bsuite", "collect")
    out = tmp_path / "logs.csv"
    theirs = f"theirs={tmp_path / 'theirs'}"
    monkeypatch.setattr(sys, "argv", ["collect.py", str(tmp_path / "two"), "--out", str(out), "--bsuite", theirs])
    script.main()
    kept = out.read_bytes()
    script.main()
    assert out.read_bytes() == kept, "a run that is there is replaced, not repeated"
    assert "4 runs" in capsys.readouterr().out
    logs = run_of("bsuite", "logs")
    found = logs.read_logs(out)
    scores, _ = logs.scores_of(found[found["agent"] == "theirs"])
    rows, _ = csv_load.load_bsuite(str(tmp_path / "theirs"))
    by_bsuite = summary_analysis.bsuite_score(rows)
    assert scores == dict(zip(by_bsuite.bsuite_env, by_bsuite.score, strict=True))
    assert found[found["agent"] == "random"].groupby("bsuite_id")["episode"].max().to_dict() == {
        "catch/0": 100,
        "umbrella_length/0": 900,
    }
