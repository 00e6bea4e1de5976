"""The paper's sweep of Atari: it is the paper's, and at a tiny size it runs from end to end."""

from __future__ import annotations

import csv
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import bdqn
from bdqn.cli import main
from bdqn.report.grid import MISSING
from bdqn.report.paper import published
from bdqn.report.paper.our_runs import game_of
from bdqn.storage.toml import toml_text
from bdqn.sweep.plan import FULL, read_scales, read_sweep
from support.pages import read_markdown

pytest.importorskip("ale_py", reason="the atari extra is not installed")
pytest.importorskip("cv2", reason="the atari extra is not installed")

ATARI = Path(__file__).parents[1] / "experiments" / "atari"
STEPS = 240
TINY = {
    "learning_starts": 100,
    "target_update_interval": 50,
    "buffer_size": 1_000,
    "features": 32,
    "max_episode_frames": 320,  # so that episodes end
    "precision": "float32",  # bfloat16 may end the process
}
SMALLER = 1_000  # times: a refit's batch
GAMES = ["ALE/Pong-v5", "ALE/Enduro-v5"]
PONG = ("pong.toml", "pong_repeated.toml")  # our settings


def lengths(file: str) -> dict[str, float]:
    """How long each game is run, by the scales that are named after their length."""
    found: dict[str, float] = {}
    for name, sweep in read_scales(ATARI / file).items():
        if name not in (FULL, "quick"):
            assert name == f"{sweep.steps // 1_000_000}M"
            games = {game_of(trial.env) for trial in sweep.trials}
            assert not games & found.keys()
            found |= dict.fromkeys(games, sweep.steps)
    return found


def test_the_sweep_has_the_papers_games_at_the_papers_lengths() -> None:
    assert {game_of(trial.env) for trial in read_sweep(ATARI / "sweep.toml").trials} == set(published.GAMES)
    assert lengths("sweep.toml") == {game: cells["Step"].value for game, cells in published.SCORES.rows.items()}
    assert lengths("dropout.toml") == {game: cells["Step"].value for game, cells in published.DROPOUT.rows.items()}


SEARCHED = {"posterior_update_interval", "sample_interval", "acting_sample_interval"}
PAPERS = {  # every file with the paper's settings: its agents, and what else it sets
    "sweep.toml": ({"bdqn", "ddqn"}, set()),
    "dropout.toml": ({"dropout", "random"}, set()),
    "dropout_pong.toml": ({"dropout", "random"}, set()),
    "rivals.toml": ({"bootstrapped", "noisy", "dqn-counts"}, set()),
    "learning_rate.toml": ({"ddqn"}, {"learning_rate"}),
    "search.toml": ({"bdqn"}, SEARCHED),
    "atlantis_repeated.toml": ({"bdqn"}, set()),
    "atlantis.toml": ({"bdqn", "ddqn"}, {"max_episode_frames", "buffer_size", "stored_completely"}),
}


def test_every_file_is_known() -> None:
    assert {path.name for path in ATARI.glob("*.toml")} == {*PAPERS, "small.toml", *PONG}


@pytest.mark.parametrize("file", PAPERS)
def test_its_settings_are_the_papers(file: str) -> None:
    agents, changed = PAPERS[file]
    trials = read_sweep(ATARI / file).trials
    assert {trial.agent for trial in trials} == agents
    for trial in trials:
        assert trial.preset == "paper"
        assert trial.settings.keys() <= {"pack_frames", *changed}
        assert trial.values["max_episode_frames"] == (0 if file == "atlantis.toml" else None)
        assert trial.values["buffer_size"] == (4_000_000 if trial.group == "larger-memory" else 1_000_000)


def test_the_rivals_play_the_same_games_for_as_long() -> None:
    assert lengths("rivals.toml") == lengths("sweep.toml")


def test_atlantis_is_repeated_five_times() -> None:
    for file, seeds in (("atlantis.toml", {0, 1, 2, 3, 4}), ("atlantis_repeated.toml", {1, 2, 3, 4, 5})):
        assert {trial.seed for trial in read_sweep(ATARI / file).trials} == seeds


def test_the_search_is_the_papers() -> None:
    """T^T is 10,000; what the paper chose is among what is tried, once."""
    target = 10_000
    tried = [
        (t.values["posterior_update_interval"], t.values["sample_interval"], t.values["acting_sample_interval"])
        for t in read_sweep(ATARI / "search.toml").trials
    ]
    grid = {(refit, draw, 0) for refit in (10 * target, target) for draw in (target // 10, target // 100)}
    assert {one for one in tried if not one[2]} == grid
    assert all(one[:2] == (10 * target, target // 10) and one[2] < one[1] for one in tried if one[2])
    assert len(tried) == len(set(tried)) == 6


def tiny(file: str, folder: Path, environments: list[str]) -> Path:
    """The experiment's own file, but for its size."""
    content: dict[str, Any] = tomllib.loads((ATARI / file).read_text())
    del content["scales"]
    content |= {"steps": STEPS, "environments": environments}
    content["training"] |= TINY
    for name, own in content["agents"].items():
        own |= {"buffer_size": 4 * TINY["buffer_size"]} if "buffer_size" in own else {}
        own |= {"stored_completely": 20} if "stored_completely" in own else {}
        if own.get("agent", name) == "bdqn":
            batch = own.get("posterior_batch_size", 100_000) // SMALLER
            own |= {"posterior_update_interval": 50, "posterior_batch_size": batch}
    path = folder / file
    path.write_text(toml_text(content))
    return path


@pytest.mark.parametrize("file", [*PAPERS, *PONG])
def test_every_file_is_learned_with_at_a_tiny_size(file: str, tmp_path: Path) -> None:
    """Every group of it: past the first updates, and refits where it has any."""
    groups = {trial.group: trial for trial in read_sweep(tiny(file, tmp_path, GAMES[:1])).trials}
    for trial in groups.values():
        agent = bdqn.make(trial.agent, trial.env, preset=trial.preset, **trial.settings).learn(160).agent
        assert agent.updates == (0 if trial.agent == "random" else 15)
        assert agent.online.head.fitted


def test_days_are_told_on_this_machine_and_on_one_with_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is none, what is missing is said; at an assumed speed none is needed."""
    words = ["sweep", str(ATARI / "learning_rate.toml"), "--out", str(tmp_path / "out"), "--dry-run", "--workers", "1"]
    assert main(words) == 0
    assert re.search(r"ddqn .* on ALE/Assault-v5: [\d.]+ days and [\d.]+ GB each", capsys.readouterr().out)
    assert main([*words, "--device", "cuda", "--speed", "1000"]) == 0
    assert "about 22.2 h, if each takes 1000 decisions a second (assumed, not measured)" in capsys.readouterr().out
    assert main([*words, "--device", "cuda"]) == 0
    if not torch.cuda.is_available():
        assert "not estimated: device 'cuda' cannot be used here, as cpu can: " in capsys.readouterr().out


def rows_of(path: Path) -> dict[str, dict[str, str]]:
    return {row["game"]: {name: cell.strip("*") for name, cell in row.items()} for row in read_markdown(path)}


def test_it_runs_from_end_to_end_at_a_tiny_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outs = {"sweep.toml": tmp_path / "atari", "dropout.toml": tmp_path / "atari-dropout"}
    for file, games in (("sweep.toml", GAMES), ("dropout.toml", GAMES[:1])):
        path = tiny(file, tmp_path, games)
        assert main(["sweep", str(path), "--out", str(outs[file]), "--workers", "2", "--quiet"]) == 0
    output = capsys.readouterr().out
    assert "4 of 4 trials are finished." in output
    assert "2 of 2 trials are finished." in output

    results = tmp_path / "results"
    assert main(["compare", str(outs["sweep.toml"]), "--baseline", "ddqn", "--out", str(results)]) == 0
    with (results / "runs.csv").open(newline="") as file:
        runs = {(row["env"], row["group"]): int(row["decisions"]) for row in csv.DictReader(file)}
    assert runs == {(game, agent): STEPS for game in GAMES for agent in ("bdqn", "ddqn")}

    tables = tmp_path / "tables"
    page = tmp_path / "atari.html"
    words = ["report", *map(str, outs.values()), "--paper", "--out", str(page), "--tables", str(tables)]
    assert main(words) == 0
    scores, dropout = rows_of(tables / "paper-table-2.md"), rows_of(tables / "paper-table-4.md")
    assert len(scores) == len(published.GAMES)
    for game, row in scores.items():
        ours = [row[name] for name in ("BDQN ours", "DDQN ours", "Step ours")]
        if game in ("Pong", "Enduro"):
            assert MISSING not in ours
            assert row["Step ours"] == str(STEPS)
        else:
            assert set(ours) == {MISSING}
    score, note = scores["Pong"]["BDQN ours"].split(" (")
    assert -21 <= float(score) <= 0
    assert note == f"1 seed; {STEPS // (TINY['max_episode_frames'] // 4)} episodes)"
    assert scores["Pong"]["BDQN"] == "21"
    for column in ("BDQN ours", "DDQN ours", "Dropout-DDQN ours", "Random ours"):
        assert dropout["Pong"][column] != MISSING, column
    assert dropout["Atlantis"]["Random ours"] == MISSING
    html = page.read_text()
    assert "Missing: no runs of Amidar" in html
    assert "no runs of agent dropout" not in html
