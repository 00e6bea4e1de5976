"""``bdqn report``: what its page and its tables say, also of what is missing; opened in a real browser."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bdqn.cli import main
from bdqn.report import stats
from bdqn.report.charts import BOTTOM, HEIGHT, Series, line_chart, si
from bdqn.report.html import page as page_of
from bdqn.report.paper.our_runs import game_of
from bdqn.report.runs import UNKNOWN, read_runs
from bdqn.report.summary import settings_grid, show
from support.browser import Browser
from support.pages import EVIL, read_markdown, write_evaluation, write_run

RATE = "learning_rate"
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
                    write_evaluation(run, 0.001, 16.0, 1200)
    rows.append("f" * 16 + ",bdqn,bdqn,ALE/Pong-v5,2")
    (folder / "trials.csv").write_text("\n".join(rows) + "\n")
    return folder


def table(path: Path) -> dict[str, dict[str, str]]:
    return {row["game"]: {name: cell.strip("*") for name, cell in row.items()} for row in read_markdown(path)}


def report_of(paths: Sequence[Path], folder: Path) -> tuple[str, dict[tuple[str, str], dict[str, str]]]:
    """A report's page, and its scores by environment and group."""
    out = folder / "report"
    assert main(["report", *map(str, paths), "--out", str(out / "page.html"), "--tables", str(out)]) == 0
    scores = {(row["environment"], row["group"]): row for row in read_markdown(out / "scores.md")}
    return (out / "page.html").read_text(), scores


def drawn(page: str, title: str) -> list[dict[str, Any]]:
    """The lines of a chart."""
    chart = next(figure for figure in page.split("<figure") if f"<strong>{title}</strong>" in figure)
    found = re.search(r'<script [^>]*json">(.*?)</script>', chart)
    lines: list[dict[str, Any]] = json.loads(found[1])["series"] if found else []
    return lines


def test_the_tables_hold_what_the_runs_did(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["report", str(sweep), "--out", str(out / "page.html"), "--paper", "--tables", str(out)]) == 0
    assert "note: bdqn on ALE/Pong-v5, seed 2 is missing" in capsys.readouterr().out
    scores = {(row["environment"], row["group"]): row for row in read_markdown(out / "scores.md")}
    assert scores["ALE/Pong-v5", "bdqn"]["last 100 episodes"] == "19.5 (19 to 20)"
    assert scores["ALE/Pong-v5", "ddqn"]["at epsilon 0.001"] == "16 (16 to 16)"
    second = table(out / "paper-table-2.md")
    assert [second["Pong"][name] for name in ("BDQN", "BDQN ours")] == ["21", "19.5 (19 to 20; 2 seeds)"]
    assert [second["Pong"][name] for name in ("DDQN+", "DDQN+ ours")] == ["21", "16 (16 to 16; 2 seeds)"]
    assert second["Alien"]["BDQN ours"] == "missing"
    assert second["Pong"]["SC ours"] == "1k (1k to 1k; 2 seeds)", (
        "beats 9.3 with the first window of 100 episodes of 10 decisions"
    )
    assert second["Pong"]["SC+ ours"] == "-", "never beats 21"
    assert second["Pong"]["Step ours"] == "1.2k"
    third = table(out / "paper-table-3.md")["Pong"]
    assert third["BDQN/DDQN ours"] == "195% (190% to 200%; 2 seeds)"  # 19.5 / 10; seeds 19 / 9.5, 20 / 10.5
    assert third["AuPPr ours"].startswith("131% (")  # (19.5 + 21) / (10 + 21)
    assert third["BDQN/Human ours"] == "210% (204% to 215%; 2 seeds)"  # 19.5 / 9.3, 19 / 9.3, 20 / 9.3
    assert "8161%" in (out / "paper-disagreements.md").read_text()
    assert "\\begin{tabular}" in (out / "paper-table-4.tex").read_text()


@pytest.mark.parametrize(("seeds", "counted"), [(1, "1 run"), (2, "2 runs")])
def test_runs_are_counted_in_english(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seeds: int, counted: str
) -> None:
    paths = [write_run(tmp_path / str(seed), "bdqn", "CartPole-v1", seed, [1.0] * 120) for seed in range(seeds)]
    page, _ = report_of(paths, tmp_path)
    assert f"<p>{counted} of bdqn on CartPole-v1</p>" in page
    assert f"page.html: {counted}, " in capsys.readouterr().out


def numbers(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_csv_files_hold_numbers(sweep: Path, tmp_path: Path) -> None:
    """One per column, without thousands' commas, intervals in brackets, k or %."""
    words = ["report", str(sweep), "--out", str(tmp_path / "p.html"), "--paper", "--tables", str(tmp_path)]
    assert main(words) == 0
    bdqn, ddqn, *_ = numbers(tmp_path / "scores.csv")
    assert list(bdqn) == [
        *("environment", "group", "seeds", "seeds_planned", "scored_at", "decisions_low", "decisions_high"),
        *("final", "final_low", "final_high", "final_episodes", "area", "area_low", "area_high"),
        *("evaluation", "evaluation_low", "evaluation_high"),
        *("epsilon_0.001", "epsilon_0.001_low", "epsilon_0.001_high"),
    ]
    assert list(bdqn.values())[2:7] == ["2", "3", "1200", "1200", "1200"]
    assert list(bdqn.values())[7:14] == ["19.5", "19", "20", "100", "19.5", "19", "20"]
    assert set(list(bdqn.values())[14:]) == {""}, "nobody has evaluated it"
    assert [ddqn[f"epsilon_0.001{part}"] for part in ("", "_low", "_high")] == ["16", "16", "16"]
    second = {row["game"]: row for row in numbers(tmp_path / "paper-table-2.csv")}
    assert [second["Pong"][f"BDQN_ours{part}"] for part in ("", "_low", "_high", "_seeds")] == ["19.5", "19", "20", "2"]
    assert [second["Pong"][name] for name in ("Step", "Step_ours", "SC_ours")] == ["5000000", "1200", "1000"]
    assert [second["Alien"][name] for name in ("BDQN", "SC", "BDQN_ours")] == ["3000", "", ""]
    third = {row["game"]: row for row in numbers(tmp_path / "paper-table-3.csv")}
    assert [third["Pong"][f"BDQN/DDQN{part}"] for part in ("", "_ours", "_ours_low")] == ["1.12", "1.95", "1.904761905"]
    shared = {row["fact"]: row["value"] for row in numbers(tmp_path / "provenance-shared.csv")}
    assert (shared["decisions"], shared["planned"]) == ("1200", "1200")
    for name in ("scores", "differences", "paper-table-2", "paper-table-3", "paper-table-4"):
        for row in numbers(tmp_path / f"{name}.csv"):
            words = {"environment", "group", "score", "game", "mark"}
            assert all(not cell or float(cell) is not None for column, cell in row.items() if column not in words)


def test_the_columns_of_a_csv_file_do_not_depend_on_what_is_known(tmp_path: Path) -> None:
    """A single seed has no interval, and where returns are negative there is no ratio."""
    single = [write_run(tmp_path / "single", "bdqn", "CartPole-v1", 0, [1.0] * 120)]
    several = [
        write_run(tmp_path / f"{agent}{seed}", agent, "MountainCar-v0", seed, [-200.0 + seed] * 120)
        for agent in ("bdqn", "ddqn")
        for seed in (0, 1)
    ]
    headings = []
    for runs in (single, several):
        report_of(runs, tmp_path)
        headings.append((tmp_path / "report" / "scores.csv").read_text().splitlines()[0])
    assert headings[0] == headings[1]
    (row, *_) = numbers(tmp_path / "report" / "differences.csv")
    assert [row[name] for name in ("ratio", "difference", "p_higher")] == ["", "0", "0.5"]


def test_groups_are_set_beside_a_baseline_in_every_format(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", str(sweep), "--out", str(tmp_path / "p.html"), "--tables", str(tmp_path), "--baseline"]
    assert main([*words, "ddqn"]) == 0
    row, *_ = numbers(tmp_path / "differences.csv")
    assert (row["environment"], row["group"], row["score"]) == ("ALE/Pong-v5", "bdqn", "final")
    assert [row[f"difference{part}"] for part in ("", "_low", "_high")] == ["9.5", "9.5", "9.5"], "paired by seed"
    assert "ALE/Pong-v5 & bdqn & final & 2 & 1.950 (" in (tmp_path / "differences.tex").read_text()
    page = (tmp_path / "p.html").read_text()
    assert "Against ddqn, paired by seed" in page
    assert "9.50 (9.50 to 9.50)" in page
    assert main([*words, "dqdn"]) == 2
    assert "Unknown group 'dqdn'; did you mean ddqn" in capsys.readouterr().err


def test_scores_over_different_decisions_are_not_set_beside_each_other(sweep: Path, tmp_path: Path) -> None:
    """Kept results do not say what was before their end."""
    assert main(["compare", str(sweep), "--out", str(tmp_path / "kept")]) == 0
    runs = [write_run(tmp_path / str(seed), "noisy", "ALE/Pong-v5", seed, [1.0] * 150) for seed in (0, 1)]
    words = ["report", str(tmp_path / "kept"), *map(str, runs), "--baseline", "bdqn", "--tables", str(tmp_path)]
    assert main([*words, "--out", str(tmp_path / "p.html")]) == 0
    assert {row["environment"] for row in numbers(tmp_path / "differences.csv")} == {EVIL}


def test_curves_are_figures_too(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures"
    words = ["report", str(sweep), "--out", str(tmp_path / "p.html"), "--figures", str(out)]
    assert main([*words, "--format", "pdf,svg"]) == 0
    assert f"{out}: curves.pdf, curves.svg" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {"curves.pdf", "curves.svg"}
    assert main([*words, "--format", "gif"]) == 2


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
    assert "no run has a finished episode yet" in capsys.readouterr().err


def test_an_evaluation_of_another_time_is_left_out_and_said(tmp_path: Path) -> None:
    """Resumed after its evaluation; and compared with a run that is not as long."""
    runs = [write_run(tmp_path / str(seed), "ddqn", "CartPole-v1", seed, [1.0] * 120) for seed in (0, 1, 2)]
    for run, step in zip(runs, (800, 1200, 1200), strict=True):
        write_evaluation(run, 0.001, 16.0, step)
    found = read_runs(runs)
    assert [r.evaluated_at(0.001) for r in found.records[1:]] == [16.0, 16.0]
    assert np.isnan(found.records[0].evaluated_at(0.001))
    (remark,) = (remark for remark in found.remarks if "evaluation" in remark)
    assert "seed 0: its evaluation at epsilon 0.001 is from decision 800, but scores refer to 1,200" in remark
    assert f"Repeat it: bdqn evaluate {runs[0]} --epsilon 0.001 --keep." in remark
    shorter = write_run(tmp_path / "shorter", "bdqn", "CartPole-v1", 0, [1.0] * 80)
    remarks = [remark for remark in read_runs([*runs, shorter]).remarks if "evaluation" in remark]
    assert [remark.split(":")[0][-1] for remark in remarks] == ["1", "2"]
    assert all("from decision 1,200, but scores refer to 800. It is left out." in remark for remark in remarks)
    assert "Repeat it" not in "".join(remarks), "a new one would not be of decision 800 either"


def test_scores_say_which_decisions_they_stand_for(tmp_path: Path) -> None:
    lengths = {"bdqn": (80, 80), "ddqn": (120, 100)}
    runs = [
        write_run(tmp_path / f"{agent}{seed}", agent, "CartPole-v1", seed, [1.0] * length)
        for agent, both in lengths.items()
        for seed, length in enumerate(both)
    ]
    _, scores = report_of(runs, tmp_path)
    scored = {group: row["scored at"] for (_, group), row in scores.items()}
    assert scored == {"bdqn": "800", "ddqn": "800 (1,000 to 1,200 taken)"}


def test_a_score_of_fewer_episodes_says_how_many(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(seed), "bdqn", "CartPole-v1", seed, [float(seed)] * 30) for seed in (4, 6)]
    runs.append(write_run(tmp_path / "one", "ddqn", "Acrobot-v1", 0, [5.0]))
    runs.append(write_run(tmp_path / "all", "bdqn", "MountainCar-v0", 0, [5.0] * 100))
    scores = [row["last 100 episodes"] for row in report_of(runs, tmp_path)[1].values()]
    assert scores == ["5 (4 to 6; 30 episodes)", "5 (1 episode)", "5"]


def test_planned_trials_without_runs_are_missing_and_nothing_else_is(sweep: Path, tmp_path: Path) -> None:
    with (sweep / "trials.csv").open("a") as file:
        file.writelines(f"later{seed},later,dqn,{EVIL},{seed}\n" for seed in (0, 1, 2))
    single = write_run(tmp_path / "single", "noisy", "CartPole-v1", 0, [1.0] * 120)
    _, scores = report_of([sweep, single], tmp_path)
    pong = "ALE/Pong-v5"
    assert {place: row["seeds"] for place, row in scores.items()} == {
        (pong, "bdqn"): "2 of 3",
        (pong, "ddqn"): "2",
        (EVIL, "bdqn"): "2",
        (EVIL, "ddqn"): "2",
        (EVIL, "later"): "0 of 3",
        ("CartPole-v1", "noisy"): "1",
    }
    assert set(scores[EVIL, "later"].values()) == {EVIL, "later", "0 of 3", "missing"}


def test_intervals_of_few_seeds_come_with_a_warning(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(seed), "bdqn", "CartPole-v1", seed, [float(seed)] * 120) for seed in range(10)]
    said = {count: report_of(runs[:count], tmp_path / str(count))[0].count("too narrow") for count in (1, 9, 10)}
    assert said == {1: 0, 9: 2, 10: 0}, "beside the curves and beside the scores, where there is an interval"


@pytest.mark.parametrize("seeds", stats.COVERAGE)
def test_what_is_said_of_few_seeds_is_so(seeds: int) -> None:
    rng, trials = np.random.default_rng(seeds), 1_000
    intervals = (stats.bootstrap(stats.mean, {"all": rng.standard_normal(seeds)}, rng) for _ in range(trials))
    holds = np.mean([low <= 0 <= high for low, high in intervals])
    assert 100 * holds == pytest.approx(stats.COVERAGE[seeds], abs=4)  # two and a half standard errors


def test_numbers_are_rounded_before_their_unit_is_chosen() -> None:
    assert [si(value) for value in (999.7, 999_499, 999_999, -999.99e6, 1e13)] == ["1k", "999k", "1M", "-1G", "1e+13"]
    assert [show(value) for value in (999.4, 999.7, -999.7, 1234.5, 0.0)] == ["999", "1,000", "-1,000", "1,234", "0"]


def test_posteriors_are_averaged_at_the_same_decisions(tmp_path: Path) -> None:
    """One run logs every 400 decisions; the other every 200 from 300 on, but had nothing to log at 300 and 700."""
    nothing = float("nan")
    logged = [
        {"step": [400, 800, 1200, 1600], "posterior/std_mean": [1, 2, 3, 4]},
        {"step": [300, 500, 700, 900, 1100, 1300], "posterior/std_mean": [nothing, 20, nothing, 40, 50, 60]},
    ]
    runs = [
        write_run(tmp_path / str(seed), "bdqn", "CartPole-v1", seed, [1.0] * 130, metrics=metrics)
        for seed, metrics in enumerate(logged)
    ]
    (line,) = drawn(report_of(runs, tmp_path)[0], "Spread of Q")
    assert (line["name"], line["x"]) == ("bdqn (2 seeds)", [800, 1200]), "as far as both go"
    assert line["y"] == ["11", "26.5"], "(2 + 20) / 2, (3 + 50) / 2"


def test_only_agents_that_draw_have_a_share_of_draws(tmp_path: Path) -> None:
    metrics = {"posterior/draw_differs": [0.0] * 120, "posterior/std_mean": [1.0] * 120}
    agents = [("bdqn", {"acting": "thompson"}), ("bdqn", {"acting": "mean"}), ("ucb", {})]
    runs = [
        write_run(tmp_path / str(i), agent, "CartPole-v1", 0, [1.0] * 120, settings=settings, metrics=metrics)
        for i, (agent, settings) in enumerate(agents)
    ]
    page, _ = report_of(runs, tmp_path)
    assert len(drawn(page, "Spread of Q")) == 3
    assert [line["name"] for line in drawn(page, "Share of draws with another action than the mean")] == [
        "bdqn acting=thompson (1 seed)"
    ]


@pytest.mark.parametrize("in_a_sweep", [True, False])
def test_a_damaged_run_is_named_and_the_others_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], in_a_sweep: bool
) -> None:
    files = ["config.toml", "episodes.csv", "metrics.csv", "none"]
    runs = [
        write_run(tmp_path / "trials" / file, "bdqn", "CartPole-v1", seed, [1.0] * 120, metrics=SPREAD)
        for seed, file in enumerate(files)
    ]
    rows = [f"{file},bdqn,bdqn,CartPole-v1,{seed}\n" for seed, file in enumerate(files)]
    (tmp_path / "trials.csv").write_text("".join(["trial,group,agent,env,seed\n", *rows]))
    for run, file in zip(runs, files[:-1], strict=False):
        with (run / file).open("a") as damaged:
            damaged.write("1300,0\n" if file.endswith("csv") else "seed = \n")
    (runs[-1] / "meta.json").write_text('{"machine": 3, "versions": "new", "resumed": 1}')
    page, scores = report_of([tmp_path] if in_a_sweep else runs, tmp_path)
    output = capsys.readouterr().out
    for run, file, problem in zip(runs, files[:-1], ("Invalid value", "line 122 has", "line 122 has"), strict=False):
        assert f"{run / file}: {problem}" in output
    assert scores["CartPole-v1", "bdqn"]["seeds"] == ("2 of 4" if in_a_sweep else "2 of 3")
    assert drawn(page, "Spread of Q")[0]["name"] == "bdqn (1 seed)"


def test_a_seed_below_zero_is_refused(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(sweep), "--seed", "-1", "--out", str(tmp_path / "p.html")]) == 2
    assert "--seed must be at least 0, not -1." in capsys.readouterr().err


def test_a_group_of_another_sweep_with_other_settings_is_another_group(tmp_path: Path) -> None:
    def sweep(name: str, seed: int, rate: float) -> Path:
        write_run(tmp_path / name / "trials" / "a", "ddqn", "CartPole-v1", seed, [1.0] * 120, settings={RATE: rate})
        (tmp_path / name / "trials.csv").write_text(f"trial,group,agent,env,seed\na,ddqn,ddqn,CartPole-v1,{seed}\n")
        return tmp_path / name

    found = read_runs([sweep("first", 0, 0.1), sweep("second", 1, 0.2), sweep("third", 2, 0.1)])
    assert [(r.group, r.seed) for r in found.records] == [("ddqn", 0), ("ddqn (2)", 1), ("ddqn", 2)]
    assert not any("other settings" in remark for remark in found.remarks)


def test_calibration_is_drawn_beside_a_calibrated_gaussians(tmp_path: Path) -> None:
    metrics = {**SPREAD, "posterior/within_1_std": [0.9, 0.95] * 60, "posterior/within_2_std": [float("nan")] * 120}
    run = write_run(tmp_path / "run", "bdqn", "CartPole-v1", 0, [20.0] * 120, metrics=metrics)
    assert main(["report", str(run), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    one, two = (figure for figure in page.split("<figure") if "<strong>Calibration: unseen targets within" in figure)
    assert one.count('class="ideal"') == page.count('class="ideal"') == 1
    ideal = float(one.split('class="ideal"')[0].rsplit('y1="', 1)[1].split('"')[0])
    drawn = float(one.split(' d="M', 1)[1].split("L")[0].split(",")[1])
    assert drawn < ideal < HEIGHT - BOTTOM, "0.9 stands above 0.68, which is within the picture"
    assert "No run has logged this yet" in two


def test_single_runs_are_split_by_what_was_set_and_not_by_seed(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / f"{rate}-{seed}", "ddqn", "CartPole-v1", seed, [1.0] * 120, settings={RATE: rate})
        for rate in (0.0005, 0.005)
        for seed in (0, 1)
    ]
    runs.append(write_run(tmp_path / "other", "bdqn", "CartPole-v1", 0, [1.0] * 120, settings={RATE: 0.1}))
    found = read_runs(runs)
    assert {group: len(found.of(group)) for group in found.groups} == {
        "ddqn learning_rate=0.0005": 2,  # as a sweep's grid names them
        "ddqn learning_rate=0.005": 2,
        "bdqn": 1,
    }
    assert not any("other settings" in remark for remark in found.remarks)
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "p.html"), "--tables", str(tmp_path)]) == 0
    assert "learning_rate,0.0005,0.005,0.1" in (tmp_path / "settings.csv").read_text()


def test_an_environment_made_from_a_seed_is_no_other_setting(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / str(seed), "ddqn", "bdqn/DeepSea-v0", seed, [1.0] * 120, env_kwargs={"mapping_seed": seed})
        for seed in (0, 1)
    ]
    found = read_runs(runs)
    assert [(record.group, record.seed) for record in found.records] == [("ddqn", 0), ("ddqn", 1)]
    assert not any("other settings" in remark for remark in found.remarks)


def test_runs_are_not_split_by_what_their_environments_decide(tmp_path: Path) -> None:
    def write(name: str, env: str, seed: int, rate: float, **more: str) -> Path:
        return write_run(tmp_path / name, "ddqn", env, seed, [1.0] * 120, settings={RATE: rate}, **more)

    plain = [
        write("a", "CartPole-v1", 0, 1e-3, family="classic"),
        write("b", "Acrobot-v1", 0, 2e-3, family="classic"),
        write("c", "MinAtar/Breakout-v1", 0, 3e-3, family="minatar"),
        write("d", "ALE/Pong-v5", 0, 4e-3, family="atari"),
    ]
    assert read_runs(plain).groups == ["ddqn"]
    acrobot = write("f", "Acrobot-v1", 0, 2e-3, family="classic", preset="paper")
    assert read_runs([plain[0], acrobot]).groups == ["ddqn"]
    paper = write("e", "CartPole-v1", 0, 5e-3, family="classic", preset="paper")
    groups = ["ddqn preset=default", "ddqn", "ddqn preset=paper"]
    assert read_runs([*plain, paper]).groups == groups, "a preset stands for its values, and for its family alone"


def test_a_setting_that_a_run_does_not_have_tells_it_from_one_that_has(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / str(i), "bdqn", "CartPole-v1", i, [1.0] * 120, settings=settings)
        for i, settings in enumerate([{}, {"noise_var": 0.5}])
    ]
    assert read_runs(runs).groups == ["bdqn noise_var=none", "bdqn noise_var=0.5"]


def test_a_single_run_joins_a_sweep_s_group_only_if_it_is_alike(sweep: Path, tmp_path: Path) -> None:
    def groups(rate: float) -> list[str]:
        name = tmp_path / str(rate)
        return read_runs([sweep, write_run(name, "ddqn", EVIL, 7, [1.0] * 120, settings={RATE: rate})]).groups

    assert groups(0.00025) == ["bdqn", "ddqn"]
    assert groups(0.5) == ["bdqn", "ddqn", "ddqn learning_rate=0.5"]


def test_settings_that_differ_within_a_group_are_marked(tmp_path: Path) -> None:
    folder, rows = tmp_path / "sweep", ["trial,group,agent,env,seed"]
    for seed, settings in enumerate([{RATE: 0.1}, {RATE: 0.2}, {RATE: 0.1, "late": 3}]):
        write_run(folder / "trials" / str(seed), "ddqn", "CartPole-v1", seed, [1.0] * 120, settings=settings)
        rows.append(f"{seed},ddqn,ddqn,CartPole-v1,{seed}")
    write_run(folder / "trials" / "3", "ddqn", "Acrobot-v1", 0, [1.0] * 120, settings={RATE: 0.1, "gamma": 0.5})
    (folder / "trials.csv").write_text("\n".join([*rows, "3,ddqn,ddqn,Acrobot-v1,0"]) + "\n")
    made = settings_grid(read_runs([folder]))
    assert [row for i, row in enumerate(made.rows) if i in made.marked] == [(RATE, "0.1 / 0.2"), ("late", "- / 3")]
    assert ("gamma", "0.99 / 0.5") in made.rows, "by environment"
    assert "First the 2 that differ" in made.note


def test_settings_that_are_almost_alike_are_told_apart(tmp_path: Path) -> None:
    rates = [0.12345678, 0.12345679, 2.0]
    runs = [
        write_run(tmp_path / str(rate), "ddqn", "CartPole-v1", 0, [1.0] * 120, settings={RATE: rate}) for rate in rates
    ]
    made = settings_grid(read_runs(runs))
    assert made.rows[0] == (RATE, "0.12345678", "0.12345679", "2")
    assert 0 in made.marked


# --- kept results -------------------------------------------------------------------------------------------------


def test_kept_results_are_a_report_too(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["compare", str(sweep), "--out", str(tmp_path / "results")]) == 0
    for source, name in ((sweep, "all"), (tmp_path / "results", "kept")):
        page = str(out / f"{name}.html")
        assert main(["report", str(source), "--out", page, "--paper", "--tables", str(out / name)]) == 0
    cells = [read_markdown(out / name / "scores.md") for name in ("all", "kept")]
    for full, kept in zip(*cells, strict=True):
        assert full["seeds"].startswith(kept["seeds"]), "what was planned is not kept"
        assert {**kept, **{name: full[name] for name in ("seeds", "at epsilon 0.001")}} == full
    full, kept = ((out / f"{name}.html").read_text() for name in ("all", "kept"))
    assert kept.count('class="line') == full.count('class="line') - 4, "all but the posterior's diagnostics"
    assert kept.count("Unknown for bdqn, ddqn: ") == 2, "settings and provenance"
    assert "These files contain no settings, posterior diagnostics or provenance" in capsys.readouterr().out
    assert not (out / "kept" / "settings.csv").exists()
    second = table(out / "kept" / "paper-table-2.md")["Pong"]
    assert [second[f"{name} ours"] for name in ("BDQN", "DDQN", "DDQN+")] == [
        "19.5 (19 to 20; 2 seeds)",
        "10 (9.5 to 10.5; 2 seeds)",
        "missing",
    ]
    assert second["SC ours"] == "missing", "episodes are not kept"
    third = table(out / "kept" / "paper-table-3.md")["Pong"]
    assert third["AuPPr ours"].startswith("131% (")
    fifth = csv.DictReader((out / "kept" / "paper-table-5.csv").read_text().splitlines())
    assert {row["ours"] for row in fifth} == {"missing"}


def test_kept_results_beside_others_keep_to_themselves(sweep: Path, tmp_path: Path) -> None:
    kept = tmp_path / "results"
    assert main(["compare", str(sweep), "--out", str(kept)]) == 0
    run = write_run(tmp_path / "run", "bdqn", "ALE/Pong-v5", 0, [1.0] * 150)
    found = read_runs([kept, run, kept])
    assert found.groups == ["bdqn", "bdqn (2)", "ddqn", "bdqn (3)", "ddqn (2)"]
    assert {record.agent for record in found.records if record.group.startswith("bdqn")} == {"bdqn"}
    assert found.with_details.groups == ["bdqn"]
    assert "ALE/Pong-v5: scores cover 1,200 or 1,500 decisions and cannot be compared." in found.remarks
    assert main(["report", str(kept), str(run), "--out", str(tmp_path / "p.html")]) == 0
    page = (tmp_path / "p.html").read_text()
    assert "Unknown for bdqn (2), ddqn, bdqn: " in page
    assert '<th scope="col">setting</th><th scope="col">bdqn</th></tr>' in page


def test_the_agents_of_kept_groups_are_known_by_their_names(tmp_path: Path) -> None:
    agents = {"ls-dqn": "ls-dqn", "ddqn learning_rate=0.1 gamma=0.9": "ddqn", "careful": UNKNOWN, "bdqn and": UNKNOWN}
    lines = [f"CartPole-v1,{group},0" for group in agents]
    heading = "env,group,seed,decisions,final,area,evaluation"
    (tmp_path / "runs.csv").write_text("\n".join([heading, *(f"{line},10,1,1," for line in lines)]) + "\n")
    (tmp_path / "curves.csv").write_text(
        "\n".join(["env,group,seed,step,return", *(f"{line},10,1" for line in lines)]) + "\n"
    )
    found = read_runs([tmp_path])
    assert {record.group: record.agent for record in found.records} == agents
    assert main(["report", str(tmp_path), "--paper", "--out", str(tmp_path / "p.html")]) == 0
    (tmp_path / "curves.csv").unlink()
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "p.html")]) == 2


def test_games_are_known_by_any_of_their_ids() -> None:
    ids = ("ALE/ChopperCommand-v5", "PongNoFrameskip-v4", "ALE/Breakout-v5", "CartPole-v1")
    assert [game_of(env) for env in ids] == ["ChopperCmd", "Pong", None, None]


def test_the_same_runs_give_the_same_page(sweep: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["report", str(sweep), "--out", str(tmp_path / name), "--paper", "--title", "t"]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def readout(browser: Browser, share: float = 0.9) -> str:
    """What the first chart says where it is pointed at."""
    browser.run(
        f"""(() => {{ const svg = document.querySelector('#curve-0 svg'), box = svg.getBoundingClientRect();
        svg.dispatchEvent(new PointerEvent('pointermove', {{clientX: box.left + box.width * {share}}})) }})()"""
    )
    return str(browser.run("document.querySelector('#curve-0 .readout').textContent"))


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
    assert "bdqn 19.5 (19 to 20)" in readout(browser)
    assert browser.complaints == []


def test_a_phone_shows_every_score_and_what_differs(tmp_path: Path, browser: Browser) -> None:
    """Without scrolling sideways; settings that are alike take one line until they are asked for."""
    alike = {f"setting_{i}": i for i in range(50)}
    runs = [
        write_run(
            tmp_path / f"{agent}{seed}", agent, "bdqn/StochasticDeepSea20-v0", seed, [-0.00445] * 120, settings=alike
        )
        for agent in ("bdqn", "ddqn")
        for seed in (0, 1, 2)
    ]
    page = tmp_path / "page.html"
    assert main(["report", *map(str, runs), "--out", str(page)]) == 0
    browser.open(page, 390)
    outside = """[...document.querySelectorAll('#scores td, #scores tbody th')].filter(
        cell => { const box = cell.getBoundingClientRect(); return box.right > 390 || box.left < 0 || !box.width })"""
    assert browser.run(f"{outside}.length") == 0
    assert browser.run("getComputedStyle(document.querySelector('#scores td'), '::before').content") == '"group"'
    assert browser.run("document.querySelector('#settings figure').textContent").endswith(
        "settingbdqnddqnagentbdqnddqn"
    )
    closed = browser.run("document.querySelector('#settings-others').closest('details')?.open")
    assert closed is False
    assert browser.run("document.querySelector('#settings-others').textContent.includes('setting_49')")
    height = "document.querySelector('#provenance').offsetTop - document.querySelector('#settings').offsetTop"
    assert browser.run(height) < 844, "one screen"
    browser.open(page, 1280)
    assert browser.run("getComputedStyle(document.querySelector('#scores td')).display") == "table-cell"


@pytest.mark.parametrize("width", [1280, 390])
def test_ten_groups_look_different_in_a_browser(tmp_path: Path, browser: Browser, width: int) -> None:
    runs = [
        write_run(tmp_path / str(i), "ddqn", "CartPole-v1", i // 9, [float(i)] * 120, settings={RATE: i % 9})
        for i in range(18)
    ]
    runs.append(write_run(tmp_path / "again", "ddqn", "CartPole-v1", 0, [44.0] * 120, settings={RATE: 0}))
    page = tmp_path / "page.html"
    assert main(["report", *map(str, runs), "--out", str(page)]) == 0
    browser.open(page, width)
    assert browser.complaints == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    for kind, look in (("path.line", "s.stroke + s.strokeDasharray"), (".key", "s.backgroundColor + s.borderTop")):
        looks = browser.run(
            f"""[...document.querySelectorAll('#curve-0 {kind}')].map(e => {{
            const s = getComputedStyle(e); return {look} }})"""
        )
        assert (len(looks), len(set(looks))) == (10, 10)
    assert "ddqn learning_rate=0 (2) 44" in readout(browser), "the whole name"


def test_lines_are_read_out_as_far_as_they_go(tmp_path: Path, browser: Browser) -> None:
    x = np.array([100.0, 500.0, 1000.0])
    late = np.array([np.nan, 4.0, 4.0])
    lines = [
        Series("short (2 seeds)", 0, x[:2], np.ones(2), np.zeros(2), 2 * np.ones(2)),
        Series("seeds", 1, x, np.full(3, 3.0), thin=True),
        Series("seeds", 1, x, late, thin=True),
    ]
    page = tmp_path / "page.html"
    page.write_text(page_of("t", line_chart("curve-0", "T", lines, "y"), scripts=("report.js",)))
    browser.open(page)
    said = [readout(browser, share).partition(": ")[2] for share in (0.13, 0.4, 0.9)]
    assert said == ["", "short 1 (0 to 2) · seeds 3", "seeds 3, 4"]
    assert ":" not in readout(browser, 0.13), "before the first point"
    assert browser.complaints == []
