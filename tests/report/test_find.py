"""Runs are found at any depth below a directory, and nothing is taken for one that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from bdqn.cli import evaluate, main
from bdqn.report import find
from bdqn.report.find import distinct
from support.pages import write_run

ENV = "CartPole-v1"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """As `bdqn train` leaves them: ROOT/ENV/AGENT/TIME_sSEED."""
    root = tmp_path / "runs"
    for agent, score in (("ddqn", 1.0), ("bdqn", 2.0)):
        for seed in (0, 1, 2):
            write_run(root / ENV / agent / f"now_s{seed}", agent, ENV, seed, [score + seed] * 120)
    return root


def write_sweep(folder: Path) -> Path:
    write_run(folder / "trials" / "a", "noisy", ENV, 0, [1.0] * 120)
    (folder / "trials.csv").write_text(f"trial,group,agent,env,seed\na,noisy,noisy,{ENV},0\n")
    return folder


def test_runs_and_sweeps_are_found_at_any_depth(runs: Path, tmp_path: Path) -> None:
    sweep = write_sweep(runs / "deep" / "er" / "sweep")
    found = find.find(tmp_path)
    assert found.sweeps == (sweep,), "whose trials are its own"
    assert [path.relative_to(runs / ENV).as_posix() for path in found.runs] == [
        *(f"bdqn/now_s{seed}" for seed in (0, 1, 2)),
        *(f"ddqn/now_s{seed}" for seed in (0, 1, 2)),
    ]
    assert str(found) == f"{tmp_path}: found 1 sweep and 6 runs"
    assert str(find.find(sweep)) == str(find.find(found.runs[0])) == "", "it is one itself"


def test_what_lies_elsewhere_or_is_hidden_is_not_found(runs: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    write_run(place / ".hidden" / "run", "ddqn", ENV, 0, [1.0])
    (place / "link").symlink_to(runs, target_is_directory=True)
    (place / "round").symlink_to(place, target_is_directory=True)
    assert find.find(place).folders == ()
    assert find.find(place / "link").runs != (), "asked for by name"


def test_kept_results_are_found_where_there_are_no_runs(runs: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["compare", str(runs), "--out", str(tmp_path / "kept" / name)]) == 0
    assert str(find.find(tmp_path / "kept")).endswith("found 2 sets of stored results")
    assert find.find(tmp_path).kept == (), "the runs say more"
    assert main(["compare", str(runs)]) == 0
    assert (runs / "runs.csv").exists()
    assert len(find.find(runs).runs) == 6, "what was written there takes nobody's place"


def test_a_place_with_too_many_directories_is_refused(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(find, "MOST", 3)
    assert main(["report", str(runs)]) == 2
    told = capsys.readouterr().err
    assert "has more than 3 directories below it: give a directory that is closer to the runs." in told


def test_a_directory_that_is_given_twice_is_one(runs: Path) -> None:
    again = runs / ENV / ".." / ENV
    assert distinct([runs / ENV, runs, again]) == [runs / ENV, runs]


@pytest.mark.parametrize("verb", ["report", "compare"])
def test_a_directory_above_runs_is_as_good_as_they_are(
    runs: Path, tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["--out", str(out / "page.html")] if verb == "report" else ["--out", str(out)]
    assert main([verb, str(runs / ENV), str(runs / ENV / "bdqn"), *words]) == 0
    captured = capsys.readouterr()
    assert f"{runs / ENV}: found 6 runs\n" in captured.err
    if verb == "report":
        assert "page.html: 6 runs" in captured.out, "each once"
    else:
        assert len((out / "runs.csv").read_text().splitlines()) == 7, "each once, and the heading"


@pytest.mark.parametrize("verb", ["report", "compare"])
def test_a_directory_without_runs_is_said_in_a_sentence(
    tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    assert main([verb, str(tmp_path / "empty"), "--out", str(tmp_path / "out")]) == 2
    assert f"{tmp_path / 'empty'} contains neither runs nor sweeps: give the directory" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_compare_needs_to_know_where_its_files_go(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    single = runs / ENV / "bdqn" / "now_s0"
    assert main(["compare", str(single)]) == 2
    assert "is a single run: give several runs, or a directory with several below it" in capsys.readouterr().err
    assert main(["compare", str(runs / ENV / "bdqn"), str(runs / ENV / "ddqn")]) == 2
    assert "--out DIR is required: where to write tables and curves" in capsys.readouterr().err
    assert not (single / "runs.csv").exists()


def test_evaluate_finds_runs_too(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(evaluate, "_play", lambda path, *_, **__: asked.append(path))
    monkeypatch.setattr(evaluate, "_print", lambda *_, **__: None)
    write_sweep(runs / "sweep")
    assert main(["evaluate", str(runs)]) == 0
    assert [path.name for path in asked] == ["a", *[f"now_s{seed}" for seed in (0, 1, 2)] * 2]
