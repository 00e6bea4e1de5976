"""``bdqn report``: what its page and its tables say, also of what is missing; opened in a real browser."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.report.reproduction import game_of
from bdqn.report.runs import read_runs
from pages.browser import Browser
from pages.common import EVIL, write_evaluation, write_run

SPREAD = {"posterior/std_mean": [0.5] * 120, "posterior/condition_number": [10.0, 1e4] * 60}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Two agents on Pong and on an environment with a hostile name; one trial is missing."""
    folder, rows = tmp_path / "sweep", ["trial,group,agent,env,seed"]
    for env, high in (("ALE/Pong-v5", 19.0), (EVIL, 2.0)):
        for seed in (0, 1):
            for agent, top in (("bdqn", high), ("ddqn", high / 2)):
                name = f"{len(rows):016x}"
                rows.append(f"{name},{agent},{agent},{env},{seed}")
                run = write_run(
                    folder / "trials" / name,
                    agent,
                    env,
                    seed,
                    [top + seed] * 120,
                    settings={"learning_rate": 0.0025 if agent == "bdqn" else 0.00025},
                    metrics=SPREAD if agent == "bdqn" else {},
                )
                if agent == "ddqn":
                    write_evaluation(run, 0.001, 16.0)
    rows.append("f" * 16 + ",bdqn,bdqn,ALE/Pong-v5,2")
    (folder / "trials.csv").write_text("\n".join(rows) + "\n")
    return folder


def table(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["game"]: row for row in csv.DictReader(file)}


def test_the_tables_hold_what_the_runs_did(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["report", str(sweep), "--out", str(out / "page.html"), "--paper", "--tables", str(out)]) == 0
    assert "note: bdqn on ALE/Pong-v5, seed 2 is missing" in capsys.readouterr().out
    with (out / "scores.csv").open(newline="") as file:
        scores = {(row["environment"], row["group"]): row for row in csv.DictReader(file)}
    assert scores["ALE/Pong-v5", "bdqn"]["last 100 episodes"] == "19.5 (19 to 20)"
    assert scores["ALE/Pong-v5", "ddqn"]["at epsilon 0.001"] == "16 (16 to 16)"
    second = table(out / "paper-table-2.csv")
    assert [second["Pong"][name] for name in ("BDQN", "BDQN ours")] == ["21", "19.5 (19 to 20; 2 seeds)"]
    assert [second["Pong"][name] for name in ("DDQN+", "DDQN+ ours")] == ["21", "16 (16 to 16; 2 seeds)"]
    assert second["Alien"]["BDQN ours"] == "missing"
    assert second["Pong"]["SC ours"] == "1k (1k to 1k; 2 seeds)", (
        "beats 9.3 with the first window of 100 episodes of 10 decisions"
    )
    assert second["Pong"]["SC+ ours"] == "-", "never beats 21"
    assert second["Pong"]["Step ours"] == "1.2k"
    third = table(out / "paper-table-3.csv")["Pong"]
    assert third["BDQN/DDQN ours"] == "195% (190% to 200%; 2 seeds)"  # 19.5 / 10; seeds 19 / 9.5, 20 / 10.5
    assert third["AuPPr ours"].startswith("131% (")  # (19.5 + 21) / (10 + 21)
    assert third["BDQN/Human ours"] == "210% (204% to 215%; 2 seeds)"  # 19.5 / 9.3, 19 / 9.3, 20 / 9.3
    assert "8161%" in (out / "paper-disagreements.md").read_text()
    assert "\\begin{tabular}" in (out / "paper-table-4.tex").read_text()


def test_settings_that_differ_come_first(sweep: Path, tmp_path: Path) -> None:
    assert main(["report", str(sweep), "--out", str(tmp_path / "p.html"), "--tables", str(tmp_path)]) == 0
    names = [line.split(",")[0] for line in (tmp_path / "settings.csv").read_text().splitlines()]
    assert names == ["setting", "agent", "learning_rate", "preset", "gamma"]
    page = (tmp_path / "p.html").read_text()
    assert page.count('<tr class="marked">') == 2
    assert "paper-table-2" not in page, "only with --paper"


def test_single_runs_are_a_report_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [write_run(tmp_path / str(i), "bdqn", "CartPole-v1", 0, [float(i)] * 120) for i in (1, 2)]
    found = read_runs(runs)
    assert [(r.group, r.final) for r in found.records] == [("bdqn", 1.0), ("bdqn (2)", 2.0)], "the same seed twice"
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "p.html")]) == 0
    assert main(["report", str(tmp_path / "nothing"), "--out", str(tmp_path / "q.html")]) == 2
    assert "does not exist" in capsys.readouterr().err
    empty = write_run(tmp_path / "empty", "bdqn", "CartPole-v1", 0, [])
    assert main(["report", str(empty), "--out", str(tmp_path / "q.html")]) == 2
    assert "no run with a finished episode yet" in capsys.readouterr().err


def test_games_are_known_by_any_of_their_ids() -> None:
    ids = ("ALE/ChopperCommand-v5", "PongNoFrameskip-v4", "ALE/Breakout-v5", "CartPole-v1")
    assert [game_of(env) for env in ids] == ["ChopperCmd", "Pong", None, None]


def test_the_same_runs_give_the_same_page(sweep: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["report", str(sweep), "--out", str(tmp_path / name), "--paper", "--title", "t"]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(sweep: Path, tmp_path: Path, browser: Browser, width: int) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(sweep), "--out", str(page), "--paper"]) == 0
    browser.open(page, width)
    assert (browser.complaints, browser.requests) == ([], [])
    assert browser.run("document.documentElement.scrollWidth") <= width, "tables scroll by themselves"
    titles = browser.run("[...document.querySelectorAll('h2')].map(h => h.textContent)")
    assert titles[:4] == ["Learning curves", "Scores", "Settings", "Posterior diagnostics"]
    assert EVIL in browser.run("document.querySelector('#scores').textContent")
    assert browser.run("document.querySelectorAll('#curve-0 path.line').length") == 2
    assert "seed 2 is missing" in browser.run("document.querySelector('.remarks').textContent")
    cells = browser.run(
        "[...document.querySelectorAll('#paper-table-3 tbody tr:last-child td')].map(c => c.textContent)"
    )
    assert cells[:2] == ["112%", "112%"], "as printed, and from its own scores"
    assert cells[2].startswith("195% (")
    loaded = "[...document.querySelectorAll('img.drawing')].map(picture => picture.naturalWidth > 500)"
    assert browser.run(loaded) == [True] * 3
    browser.run(
        """(() => { const svg = document.querySelector('#curve-0 svg'), box = svg.getBoundingClientRect();
        svg.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width * 0.9})) })()"""
    )
    assert "bdqn 19.5 (19 to 20)" in browser.run("document.querySelector('#curve-0 .readout').textContent")
    assert browser.complaints == []
