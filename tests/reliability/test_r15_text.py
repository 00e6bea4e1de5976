"""What the files of runs say is text: no terminal obeys it, no spreadsheet computes it, and no number breaks us."""

from __future__ import annotations

import csv
import json
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.report.cells import as_text, from_text
from bdqn.report.compare import Comparison, read_comparison, read_results, write_results
from bdqn.report.runs import read_runs
from bdqn.storage.safe_files import printable
from bdqn.storage.toml import toml_text
from bdqn.sweep.plan import read_sweep
from support.forging import forge
from support.pages import write_evaluation, write_run

ESCAPE = "\x1b]0;owned\x07"
FORMULA = "=cmd|' /C calc'!A0"
DIGITS = "9" * 400
DEEP = "[" * 100_000


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished_run, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A run that was never carried out."""
    return write_run(tmp_path / "fake", "bdqn", "CartPole-v1", 0, [1.0] * 120)


def configured(run: Path, **changes: Any) -> None:
    path = run / "config.toml"
    path.write_text(toml_text({**tomllib.loads(path.read_text()), **changes}))


# --- terminals ------------------------------------------------------------------------------------------------


def test_what_a_terminal_would_obey_is_left_out() -> None:
    obeyed = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x2028, 0xDC80)))
    assert printable(f"before{obeyed}after") == "before after"
    assert printable("Müller ε → 北京 🙂") == "Müller ε → 北京 🙂"


def test_a_checkpoint_that_is_resumed_says_nothing_to_the_terminal(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it was made with differs from what is installed, and is told."""
    for folder in (run / "checkpoints").glob("gen-*"):
        forge(folder, lambda manifest: manifest["about"]["versions"].update(python=f"3{ESCAPE}\n0"))
    assert main(["resume", str(run), "--steps", "650"]) == 0
    captured = capsys.readouterr()
    assert "python was 3 ]0;owned 0 and is" in captured.err
    for verb in ("inspect", "evaluate"):
        assert main([verb, str(run)]) == 0
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err


@pytest.mark.parametrize("verb", ["report", "compare"])
def test_names_in_a_list_of_trials_say_nothing_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """Not by way of Matplotlib's warnings either: they are no names at all."""
    write_run(tmp_path / "trials" / "a", "bdqn", f"Evil{ESCAPE}-v0", 0, [1.0] * 120)
    for row, named in ((f"a,{ESCAPE},bdqn,Evil-v0,0", "trials.csv"), ("a,bdqn,bdqn,Evil-v0,0", "config.toml")):
        (tmp_path / "trials.csv").write_text(f"trial,group,agent,env,seed\n{row}\n")
        assert main([verb, str(tmp_path), "--out", str(tmp_path / "out")]) == 2
        captured = capsys.readouterr()
        assert named in captured.out + captured.err
        assert "\x1b" not in captured.out + captured.err


# --- spreadsheets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [FORMULA, "+1+cmd|x", "-2+3+cmd|x!A0", "@SUM(1)", "\t=1", "\r=1", "'=1", "-x", "-1 to A"]
)
def test_a_text_that_a_spreadsheet_would_compute_is_marked_and_read_back(text: str) -> None:
    assert as_text(text) == f"'{text}"
    assert from_text(str(as_text(text))) == text


@pytest.mark.parametrize(
    "cell", ["bdqn", "", "-", "-3", "-3.2e-05", "+1,000.5%", "-3.2k (-4.0k to -1.1k; 5 seeds)", "1=2", -3.5, None, 7]
)
def test_numbers_and_harmless_texts_stay_as_they_are(cell: object) -> None:
    assert as_text(cell) == cell
    assert not isinstance(cell, str) or from_text(cell) == cell


def test_a_formula_does_not_reach_a_table_as_one(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / "trials" / f"a{seed}", "bdqn", FORMULA, seed, [-1.0] * 120)
    rows = "".join(f'a{seed},"{FORMULA}",bdqn,"{FORMULA}",{seed}\n' for seed in (0, 1))
    (tmp_path / "trials.csv").write_text(f"trial,group,agent,env,seed\n{rows}")
    out = tmp_path / "out"
    assert main(["report", str(tmp_path), "--out", str(out / "page.html"), "--tables", str(out)]) == 0
    assert main(["compare", str(tmp_path), "--out", str(out)]) == 0
    tables = list(out.glob("*.csv"))
    assert {"runs.csv", "curves.csv", "tables.csv", "scores.csv", "settings.csv"} <= {path.name for path in tables}
    for path in tables:
        with path.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "@"))], path
    with (out / "runs.csv").open(newline="") as file:
        assert {row["final"] for row in csv.DictReader(file)} == {"-1"}, "a number stays one"
    kept, own = read_results(out), read_comparison(tmp_path)
    assert [(r.env, r.group, r.seed) for r in kept.results] == [(r.env, r.group, r.seed) for r in own.results]


# --- contents that make no sense ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["[]", "5", '{"status": 3}', '{"resumed": 5}', '{"started": []}', DEEP, f'{{"status": {DIGITS}}}', "", "\xff", "{"],
)
def test_a_run_with_notes_that_make_no_sense_is_named(run: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (run / "meta.json").write_bytes(text.encode("latin-1"))
    assert main(["resume", str(run), "--steps", "650"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"bdqn: {run / 'meta.json'}")


@pytest.mark.parametrize("key", ["steps", "seed", "num_envs", "threads", "schedule", "env_kwargs"])
def test_a_run_configured_beyond_reason_is_refused_in_one_line(
    run: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    huge = int(DIGITS)
    configured(run, **{key: {"save_freq": huge} if key == "schedule" else huge})
    assert main(["resume", str(run), "--steps", "650"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ("save_freq" if key == "schedule" else key) in line
    assert len(line) < 500


@pytest.mark.parametrize("name", ["timing.csv", "monitor.csv"])
@pytest.mark.parametrize("row", ["x", f"1,{DIGITS},{DIGITS}", "1", "1,nan,nan", "1,-5,-5"])
def test_a_table_that_tells_no_time_is_named(
    run: Path, capsys: pytest.CaptureFixture[str], name: str, row: str
) -> None:
    lines = (run / name).read_text().splitlines()
    (run / name).write_text("\n".join([*lines[:2], *[row] * (len(lines) - 2)]) + "\n")
    assert main(["resume", str(run), "--steps", "650"]) == 2
    assert f"{run / name} is damaged: its last row has no valid time" in capsys.readouterr().err


NONSENSE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "steps": ("config.toml", lambda run: configured(run, steps=int(DIGITS))),
    "seed": ("config.toml", lambda run: configured(run, seed=int(DIGITS))),
    "settings": ("config.toml", lambda run: configured(run, settings=5)),
    "kwargs": ("config.toml", lambda run: configured(run, env_kwargs=[1])),
    "agent": ("config.toml", lambda run: configured(run, agent=5)),
    "deep": ("config.toml", lambda run: (run / "config.toml").write_text(f"x = {DEEP}")),
    "deep notes": ("meta.json", lambda run: (run / "meta.json").write_text(DEEP)),
    "listed notes": ("meta.json", lambda run: (run / "meta.json").write_text("[]")),
    "digits": ("episodes.csv", lambda run: (run / "episodes.csv").write_text(f"step,return,length\n{DIGITS},1,1\n")),
    "no number": ("episodes.csv", lambda run: (run / "episodes.csv").write_text("step,return,length\n1,nan,1\n")),
    "evaluations": (
        "evaluations.csv",
        lambda run: (run / "evaluations.csv").write_text(f"step,mean_reward\n1,{DIGITS}\n"),
    ),
}


@pytest.mark.parametrize("lie", NONSENSE)
def test_a_report_names_the_file_that_makes_no_sense_and_shows_the_others(
    fake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], lie: str
) -> None:
    name, damage = NONSENSE[lie]
    damage(fake)
    other = write_run(tmp_path / "other", "bdqn", "CartPole-v1", 1, [1.0] * 120)
    found = read_runs([fake, other])
    assert str(fake / name) in found.remarks[0]
    assert [record.seed for record in found.records] == [1]
    assert main(["report", str(fake), "--out", str(tmp_path / "page.html")]) == 2
    captured = capsys.readouterr()
    assert str(fake / name) in captured.out
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("text", ["[]", "{}", DEEP, f'{{"epsilon": 0, "mean_reward": 1, "step": {DIGITS}.5}}'])
def test_an_evaluation_that_makes_no_sense_is_left_out_and_named(fake: Path, text: str) -> None:
    write_evaluation(fake, 0.0, 1.0, 1200)
    (fake / "evaluate.json").write_text(text)
    found = read_runs([fake])
    assert any(str(fake / "evaluate.json") in remark for remark in found.remarks)
    assert found.records[0].evaluated == ()


@pytest.mark.parametrize("name", ["runs.csv", "curves.csv"])
@pytest.mark.parametrize("cells", ["x", "CartPole-v1,bdqn,x,1,1", f"CartPole-v1,bdqn,0,{DIGITS},1", ",,,,"])
def test_kept_results_that_make_no_sense_are_named(fake: Path, tmp_path: Path, name: str, cells: str) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    write_results(kept, read_comparison(_sweep(fake, tmp_path)))
    with (kept / name).open("a") as file:
        file.write(cells + ",1,1\n" * (name == "runs.csv") + "\n" * (name == "curves.csv"))
    found = read_runs([kept, fake])
    assert f"{kept / name}: line " in found.remarks[0]
    assert len(found.records) == 1


def test_a_kept_curve_that_lacks_a_point_is_named(fake: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    own = read_comparison(_sweep(fake, tmp_path)).results[0]
    write_results(kept, Comparison((own, replace(own, seed=1)), ()))
    lines = (kept / "curves.csv").read_text().splitlines(keepends=True)
    (kept / "curves.csv").write_text("".join(lines[:-1]))
    assert "differ in their number of points" in read_runs([kept, fake]).remarks[0]


def _sweep(run: Path, folder: Path) -> Path:
    (folder / "sweep").mkdir()
    shutil.copytree(run, folder / "sweep" / "trials" / "a")
    (folder / "sweep" / "trials.csv").write_text("trial,group,agent,env,seed\na,bdqn,bdqn,CartPole-v1,0\n")
    return folder / "sweep"


def test_a_sweep_file_that_is_nested_too_deeply_is_named(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(f"steps = {DEEP}")
    with pytest.raises(SettingError, match=r"sweep\.toml is not a valid TOML file: it is nested too deeply"):
        read_sweep(tmp_path / "sweep.toml")


def test_json_for_programs_says_nothing_to_the_terminal(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (newest,) = (run / "checkpoints").glob("gen-000000000600")
    forge(newest, lambda manifest: manifest["about"].update(preset=f"default{ESCAPE}"))
    main(["inspect", str(newest), "--json"])
    output = capsys.readouterr().out
    assert json.loads(output)[0]["preset"] == f"default{ESCAPE}"
    assert "\x1b" not in output


def test_what_a_command_file_holds_reaches_a_report_without_what_terminals_obey(tmp_path: Path) -> None:
    assert (
        main(
            [
                "train",
                "--env",
                "CartPole-v1",
                "--agent",
                "random",
                "--steps",
                "200",
                "--quiet",
                "--out",
                str(tmp_path / "run"),
            ]
        )
        == 0
    )
    (tmp_path / "run" / "command.txt").write_text("bdqn \u202eabc \x9b31m \x1b]0;pwn\x07\n", encoding="utf-8")
    page, tables = tmp_path / "page.html", tmp_path / "tables"
    assert main(["report", str(tmp_path / "run"), "--out", str(page), "--tables", str(tables)]) == 0
    for path in [page, *tables.iterdir()]:
        assert not set("\u202e\x9b\x1b\x07") & set(path.read_text(encoding="utf-8")), path


def test_what_the_notes_of_a_run_hold_reaches_a_report_without_what_terminals_obey(fake: Path, tmp_path: Path) -> None:
    evil = "evil \u202eabc \x9b31m \x1b]0;pwn\x07"
    names = ("protocol", "git_commit", "device")
    meta = {**dict.fromkeys(names, evil), "versions": {evil: evil}, "machine": {evil: evil}, "status": "finished"}
    (fake / "meta.json").write_text(json.dumps({**meta, "started": "2026-01-01"}))
    other = write_run(tmp_path / "other", "bdqn", "CartPole-v1", 1, [1.0] * 120)  # so that some facts differ
    page, tables = tmp_path / "page.html", tmp_path / "tables"
    assert main(["report", str(fake), str(other), "--out", str(page), "--tables", str(tables)]) == 0
    assert main(["report", str(fake), "--out", str(tmp_path / "single.html"), "--tables", str(tables / "single")]) == 0
    written = [path for path in (page, tmp_path / "single.html", *tables.rglob("*")) if path.is_file()]
    assert sum("evil" in path.read_text(encoding="utf-8") for path in written) >= 6
    for path in written:
        assert not set("\u202e\x9b\x1b\x07") & set(path.read_text(encoding="utf-8")), path
