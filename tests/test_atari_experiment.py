"""The paper's sweep of Atari: it is the paper's, and at a tiny size it runs from end to end."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import Any

import pytest

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
}
REFITS = {"posterior_update_interval": 50, "posterior_batch_size": 100}
GAMES = ["ALE/Pong-v5", "ALE/Enduro-v5"]


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


@pytest.mark.parametrize(
    ("file", "agents"),
    [
        ("sweep.toml", {"bdqn", "ddqn"}),
        ("dropout.toml", {"dropout", "random"}),
        ("atlantis.toml", {"bdqn", "ddqn", "larger-memory"}),
    ],
)
def test_its_settings_are_the_papers(file: str, agents: set[str]) -> None:
    trials = read_sweep(ATARI / file).trials
    assert {trial.group for trial in trials} == agents
    for trial in trials:
        assert trial.preset == "paper"
        assert trial.settings.keys() <= {"pack_frames", "max_episode_frames", "buffer_size"}
        assert trial.values["max_episode_frames"] == (0 if file == "atlantis.toml" else None)
        assert trial.values["buffer_size"] == (4_000_000 if trial.group == "larger-memory" else 1_000_000)


def tiny(file: str, folder: Path, environments: list[str]) -> Path:
    """The experiment's own file, but for its size."""
    content: dict[str, Any] = tomllib.loads((ATARI / file).read_text())
    del content["scales"]
    content |= {"steps": STEPS, "environments": environments}
    content["training"] |= TINY
    for name, own in content["agents"].items():
        own |= REFITS if own.get("agent", name) == "bdqn" else {}
    path = folder / file
    path.write_text(toml_text(content))
    return path


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
