"""Run and sweep directories made to reach further than themselves: through links, pipes, devices and endless files.

Whatever is read of them is a plain file of a sensible size; whatever is written is made anew, where it belongs. A path
that the user types may lead through links: those within a run or a sweep are not followed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import bdqn
from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.report.compare import read_comparison, write_results
from bdqn.report.load import read_table
from bdqn.report.runs import read_runs
from bdqn.runs.directory import is_locked
from bdqn.storage import atomic, safe_files
from bdqn.storage.checkpoints import Checkpoints
from bdqn.storage.safe_files import DamagedFile, UnsafeFile
from bdqn.sweep.cluster import NOT_SHARED, run_trial
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.local import Local, Process
from bdqn.sweep.plan import read_sweep
from bdqn.tune.study import _drop_incomplete_line
from support.pages import write_evaluation, write_run
from support.sweeps import sweep_file

SECRET = "the-contents-of-a-private-key"
RESUME_READS = ("config.toml", "meta.json", "metrics.csv", "episodes.csv", "timing.csv", "monitor.csv", "lock")
REPORT_READS = ("config.toml", "meta.json", "episodes.csv", "evaluations.csv")  # without these there is no score
REPORT_SHOWS = ("metrics.csv", "command.txt", "evaluate.json")  # what else the page tells


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """A pipe that is waited for ends the test."""

    def give_up(*_: object) -> None:
        raise TimeoutError("this waits for something")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def link(path: Path) -> None:
    """To a file of the user's, with the very content that should be here, and a secret."""
    aside = path.with_name(f"{path.name}-elsewhere")
    if path.exists():
        path.rename(aside)
    with aside.open("a") as file:
        file.write(f"#{SECRET}\n" if path.name.endswith((".toml", ".txt")) else "")
    path.symlink_to(aside)


def dangling(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.with_name("nowhere"))


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def endless(path: Path) -> None:
    """8 TB of nothing."""
    path.touch()
    os.truncate(path, 2**43)


KINDS = [link, dangling, pipe, device, endless]
Kind = Callable[[Path], None]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bdqn: ")
    return line


# --- the one reader -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "read",
    [
        lambda path: safe_files.read(path, 100),
        safe_files.read_toml,
        safe_files.read_json,
        lambda path: list(safe_files.lines(path)),
        lambda path: read_table(path),
        lambda path: safe_files.open_to_read(path, 100),
    ],
)
def test_only_plain_files_within_bounds_are_read(tmp_path: Path, kind: Kind, read: Callable[[Path], object]) -> None:
    path = tmp_path / "file"
    path.write_text("{}\n")
    kind(path)
    with pytest.raises(UnsafeFile, match=r"file (is a (link|pipe)|has 8,796,093,022,208 bytes, but at most)") as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", [link, dangling, pipe, device])
def test_only_plain_files_are_written_to(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / "file"
    path.write_text("mine\n")
    kind(path)
    with pytest.raises(UnsafeFile, match=r"is a (link|pipe), not a regular file"):
        safe_files.open_to_write(path)


def test_without_nofollow_a_link_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_files, "NOFOLLOW", 0)
    monkeypatch.setattr(safe_files, "_SAFE_FLAGS", os.O_NONBLOCK)
    (tmp_path / "file").write_text("mine")
    assert safe_files.read(tmp_path / "file", 100) == b"mine"
    link(tmp_path / "file")
    with pytest.raises(UnsafeFile, match="is a link"):
        safe_files.read(tmp_path / "file", 100)


def test_a_line_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("step\n")
    os.truncate(path, 3 << 30)
    with pytest.raises(DamagedFile, match="a line is longer than 1,048,576 bytes"):
        read_table(path)


def test_a_large_table_is_read_as_it_grows_in_little_memory(tmp_path: Path) -> None:
    """A list of rows took 394 bytes for each of these."""
    import tracemalloc

    path = tmp_path / "table.csv"
    path.write_text("step,return\n" + "".join(f"{i},1.5\n" for i in range(10_000)))
    tracemalloc.start()
    table = read_table(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table["step"][-1] == 9_999
    assert peak < 10_000 * 64
    np.testing.assert_array_equal(table["return"], 1.5)


def test_a_table_that_memory_does_not_suffice_for_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_files, "LARGE", 10)
    monkeypatch.setattr(safe_files, "free_memory", lambda: 100)
    (tmp_path / "table.csv").write_text("step\n" + "1\n" * 50)
    with pytest.raises(SettingError, match="bytes of memory to be read, but less is free"):
        read_table(tmp_path / "table.csv")


# --- what is written ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [".tmp-notes.txt", "notes.txt"])
@pytest.mark.parametrize("kind", [link, dangling, pipe])
def test_a_file_is_made_anew_whatever_stands_in_its_place(tmp_path: Path, place: str, kind: Kind) -> None:
    (tmp_path / place).write_text("theirs")
    kind(tmp_path / place)
    elsewhere = {path: path.read_text() for path in tmp_path.iterdir() if path.name.endswith("elsewhere")}
    atomic.write_file(tmp_path / "notes.txt", b"ours")
    assert (tmp_path / "notes.txt").read_bytes() == b"ours"
    assert not (tmp_path / "notes.txt").is_symlink()
    assert {path: path.read_text() for path in elsewhere} == elsewhere
    assert not (tmp_path / "nowhere").exists()
    assert not os.path.lexists(tmp_path / ".tmp-notes.txt")


def test_a_directory_that_is_left_over_gives_way_to_a_file(tmp_path: Path) -> None:
    (tmp_path / ".tmp-notes.txt" / "deep").mkdir(parents=True)
    atomic.write_file(tmp_path / "notes.txt", b"ours")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_directory_is_made_anew_and_nothing_is_removed_where_a_link_leads(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "agent.json").write_text("mine")
    for name in (".tmp-gen", ".tmp-old", ".tmp-rest", "rest"):
        (tmp_path / name).symlink_to(mine)
    atomic.write_directory(tmp_path / "gen", {"agent.json": b"ours"})
    atomic.discard(tmp_path / "gen")
    atomic.discard(tmp_path / "rest")
    atomic.discard_leftovers(tmp_path, re.compile("rest|old|gen"))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert [path.read_text() for path in mine.iterdir()] == ["mine"]


def test_without_handles_of_directories_files_are_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_SUPPORTS_DIR_FD", False)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".tmp-notes.txt").symlink_to(tmp_path / "mine")
    atomic.write_file(tmp_path / "notes.txt", b"ours")
    atomic.write_directory(tmp_path / "gen", {"agent.json": b"ours"})
    atomic.discard(tmp_path / "gen")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "notes.txt"]
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished_run, tmp_path / "run")
    return tmp_path / "run"


def test_nothing_that_resume_writes_goes_through_a_link(run: Path, tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    profile.write_text("mine")
    mine = tmp_path / "mine"
    mine.mkdir()
    newest = "gen-000000000700"
    for name in (".tmp-config.toml", ".tmp-meta.json"):
        (run / name).symlink_to(profile)
    (run / "checkpoints" / f".tmp-{newest}").symlink_to(mine)
    for path in (run / "checkpoints" / "replay").iterdir():  # those to come are named after their content
        (path.parent / f".tmp-{path.name}").symlink_to(profile)
    assert main(["resume", str(run), "--steps", "700", "--quiet"]) == 0
    assert (run / "checkpoints" / newest / "manifest.json").is_file()
    assert not (run / "config.toml").is_symlink()
    assert profile.read_text() == "mine"
    assert list(mine.iterdir()) == []


def test_a_kept_evaluation_goes_through_no_link(run: Path, tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    profile.write_text("mine")
    for name in (".tmp-evaluation-0.json", "evaluation-0.json"):
        (run / name).symlink_to(profile)
    assert main(["evaluate", str(run), "--episodes", "1", "--keep"]) == 0
    assert profile.read_text() == "mine"
    assert '"mean_reward"' in (run / "evaluation-0.json").read_text()


@pytest.mark.parametrize("place", ["checkpoints", "checkpoints/replay", "checkpoints/gen-000000000600"])
@pytest.mark.parametrize("verb", ["resume", "evaluate", "inspect", "watch", "tune"])
def test_directories_of_a_run_are_not_followed_through_links(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, place: str
) -> None:
    """Resumed, it would write and tidy up there."""
    mine = tmp_path / "mine"
    (run / place).rename(mine)
    (run / place).symlink_to(mine)
    before = sorted(mine.rglob("*"))
    if place.endswith("replay") and verb in ("evaluate", "watch"):
        return  # they do not look there
    assert main([verb, str(run), *(["--steps", "700"] if verb == "resume" else [])]) == 2
    assert f"{run / place} is a link" in one_line(capsys)
    assert sorted(mine.rglob("*")) == before


def test_a_new_run_is_not_begun_where_its_checkpoints_are_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "mine")
    assert main(["train", "--env", "CartPole-v1", "--steps", "10", "--quiet", "--out", str(tmp_path / "run")]) == 2
    assert "is not empty and holds no run (checkpoints)" in one_line(capsys)
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_link_that_the_user_types_is_followed(run: Path, tmp_path: Path) -> None:
    latest, newest = tmp_path / "latest", tmp_path / "newest"
    latest.symlink_to(run)
    newest.symlink_to(run / "checkpoints" / "gen-000000000600")
    for path in (latest, newest):
        assert main(["inspect", str(path)]) == 0
        assert bdqn.load(path).num_timesteps == 600
    assert Checkpoints(latest / "checkpoints").load().learner.num_timesteps == 600
    assert main(["resume", str(latest), "--steps", "650", "--quiet"]) == 0
    assert main(["report", str(latest), "--out", str(tmp_path / "page.html")]) == 0


# --- what a run's files are read for --------------------------------------------------------------------------


@pytest.mark.parametrize("name", RESUME_READS)
@pytest.mark.parametrize("kind", [link, pipe, endless])
def test_a_run_whose_files_are_none_is_not_resumed(
    run: Path, capsys: pytest.CaptureFixture[str], name: str, kind: Kind
) -> None:
    if (name, kind) == ("lock", endless):
        return  # it is never read
    kind(run / name)
    assert main(["resume", str(run), "--steps", "650", "--quiet"]) == 2
    assert str(run / name) in one_line(capsys)


@pytest.mark.parametrize("kind", [link, pipe])
def test_a_command_is_not_written_into_what_is_no_file(
    run: Path, capsys: pytest.CaptureFixture[str], kind: Kind
) -> None:
    kind(run / "command.txt")
    assert main(["resume", str(run), "--steps", "650", "--quiet"]) == 2
    assert f"{run / 'command.txt'} is a" in one_line(capsys)


def test_a_lock_that_is_a_link_is_neither_taken_nor_made(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    (tmp_path / "lock").symlink_to(tmp_path / "mine")
    with pytest.raises(UnsafeFile, match="lock is a link"):
        is_locked(tmp_path)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A sweep of two runs, of which the first is hostile."""
    for seed in (0, 1):
        folder = write_run(
            tmp_path / "two" / "trials" / f"run{seed}", "bdqn", "CartPole-v1", seed, [1.0] * 120, metrics={}
        )
        (folder / "evaluations.csv").write_text("step,mean_reward,std_reward,episodes\n1200,1.0,0.0,1\n")
        write_evaluation(folder, 0.0, 1.0, 1200)
    rows = "".join(f"run{seed},bdqn,bdqn,CartPole-v1,{seed}\n" for seed in (0, 1))
    (tmp_path / "two" / "trials.csv").write_text(f"trial,group,agent,env,seed\n{rows}")
    return tmp_path / "two"


@pytest.mark.parametrize("name", [*REPORT_READS, *REPORT_SHOWS])
@pytest.mark.parametrize("kind", KINDS)
def test_a_report_reads_no_file_that_is_none_names_it_and_shows_the_others(two: Path, name: str, kind: Kind) -> None:
    hostile = two / "trials" / "run0"
    kind(hostile / name)
    for paths in ([two], [hostile, two / "trials" / "run1"]):
        found = read_runs(paths)
        assert any(str(hostile / name) in remark for remark in found.remarks), found.remarks
        assert [record.seed for record in found.records] == [0, 1][name in REPORT_READS :]
        assert SECRET not in repr(found)
    if name in REPORT_READS:
        (remark, *_) = read_comparison(two).remarks
        assert str(hostile / name) in remark


@pytest.mark.parametrize("place", ["trials/run0", "trials/run0/checkpoints"])
def test_a_report_follows_no_link_to_a_directory(two: Path, tmp_path: Path, place: str) -> None:
    (two / place).rename(tmp_path / "mine")
    (two / place).symlink_to(tmp_path / "mine")
    for remarks in (read_runs([two]).remarks, read_comparison(two).remarks):
        assert f"{two / place} is a link" in remarks[0]


@pytest.mark.parametrize("kind", [link, pipe, device, endless])
@pytest.mark.parametrize("verb", ["compare", "evaluate", "report"])
def test_a_list_of_trials_that_is_no_file_is_not_read(
    two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, kind: Kind
) -> None:
    kind(two / "trials.csv")
    more = {"report": ["--out", str(tmp_path / "page.html")]}
    assert main([verb, str(two), *more.get(verb, [])]) == 2
    captured = capsys.readouterr()
    assert f"{two / 'trials.csv'}" in captured.out + captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("kind", [link, pipe, endless])
@pytest.mark.parametrize("name", ["runs.csv", "curves.csv"])
def test_kept_results_that_are_no_files_are_named(two: Path, tmp_path: Path, name: str, kind: Kind) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    write_results(kept, read_comparison(two))
    kind(kept / name)
    found = read_runs([kept, two])
    assert str(kept / name) in found.remarks[0]
    assert len(found.records) == 2


def test_what_compare_puts_into_a_sweep_goes_through_no_link(two: Path, tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    profile.write_text("mine")
    names = ("tables.csv", "tables.tex", "runs.csv", "curves.csv", "curves.png", "profiles.png", "curves.pdf")
    for name in names:
        (two / name).symlink_to(profile)
        (two / f".tmp-{name}").symlink_to(profile)
    assert main(["compare", str(two), "--format", "png,pdf"]) == 0
    assert profile.read_text() == "mine"
    assert not any((two / name).is_symlink() for name in names if name != "profiles.png")


# --- sweeps and searches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("trial", ["../mine", "/mine", "..", ".hidden", "a/b", "", "a\\b"])
def test_a_list_of_trials_leads_nowhere_else(
    two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], trial: str
) -> None:
    (two / "trials.csv").write_text(f"trial,group,agent,env,seed\n{trial},bdqn,bdqn,CartPole-v1,0\n")
    assert main(["evaluate", str(two), "--keep"]) == 2
    assert f"{two / 'trials.csv'} has no valid trial in line 2" in one_line(capsys)
    assert main(["compare", str(two)]) == 2
    assert "in line 2" in capsys.readouterr().out


@pytest.mark.parametrize("row", ["a,b", "a,b,c,d,e,f", "a,b,c,d,x", f"a,b,c,d,{'9' * 400}", "a,b,c,d,-1"])
def test_a_row_that_is_no_trial_is_named(two: Path, row: str) -> None:
    (two / "trials.csv").write_text(f"trial,group,agent,env,seed\n{row}\n")
    with pytest.raises(DamagedFile, match=r"trials\.csv has no valid trial in line 2"):
        SweepFolder(two).rows()
    assert "in line 2" in read_runs([two]).remarks[0]


@pytest.mark.parametrize("other", ["CartPole-v1,7", "Acrobot-v1,0"])
def test_a_trial_that_contradicts_its_run_is_named(two: Path, other: str) -> None:
    rows = f"run0,bdqn,bdqn,{other}\nrun1,bdqn,bdqn,CartPole-v1,1\n"
    (two / "trials.csv").write_text(f"trial,group,agent,env,seed\n{rows}")
    config = two / "trials" / "run0" / "config.toml"
    for found in (read_runs([two]).remarks, read_comparison(two).remarks):
        assert f"{config} is for CartPole-v1, seed 0: this is not the trial that trials.csv names." in found[0]
    assert [record.seed for record in read_runs([two]).records] == [1]


def test_an_evaluation_of_a_sweep_names_a_trial_that_is_a_link(
    two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (two / "trials" / "run0").rename(tmp_path / "mine")
    (two / "trials" / "run0").symlink_to(tmp_path / "mine")
    assert main(["evaluate", str(two), "--keep"]) == 1
    first, *_ = capsys.readouterr().err.splitlines()
    assert f"{two / 'trials' / 'run0'} is a link" in first


@pytest.mark.parametrize("place", ["trials.csv", "trials", "logs", "trials/NAME", "trials/NAME/checkpoints", "lock"])
def test_a_sweep_is_not_carried_out_where_a_link_leads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    file, out, mine = sweep_file(tmp_path, steps=10, seeds=1, agents="random"), tmp_path / "out", tmp_path / "mine"
    out.mkdir()
    (trial,) = read_sweep(file).trials
    (out / "trials.csv").write_text("trial,group,agent,env,seed\n")
    mine.mkdir()
    path = out / place.replace("NAME", trial.name)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(mine)
    (out / "trials.csv").touch()
    assert main(["sweep", str(file), "--out", str(out), "--workers", "1"]) == 2
    assert f"{path} is a link" in one_line(capsys)
    assert list(mine.iterdir()) == []


@pytest.mark.parametrize("kind", [link, pipe])
def test_a_trial_does_not_print_into_what_is_no_log(tmp_path: Path, kind: Kind) -> None:
    sweep = read_sweep(sweep_file(tmp_path, steps=10, seeds=1, agents="random"))
    folder = SweepFolder(tmp_path / "out")
    folder.folder.mkdir()
    folder.prepare(sweep)
    (trial,) = sweep.trials
    folder.log(trial).write_text("mine\n")
    kind(folder.log(trial))
    with pytest.raises(UnsafeFile, match=r"txt is a (link|pipe)"):
        Local().start(trial, folder)
    assert folder.message(trial) == ""


def test_the_sign_of_shared_storage_is_read_from_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("token")
    (tmp_path / "shared-storage").symlink_to(tmp_path / "mine")
    assert run_trial((), tmp_path / "log", 1, tmp_path / "shared-storage", "token") == NOT_SHARED


@pytest.mark.parametrize("kind", [link, dangling, pipe, endless])
def test_a_study_that_is_no_file_is_refused(tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "study.jsonl").write_text("{}\n{")
    kind(tmp_path / "study.jsonl")
    with pytest.raises(UnsafeFile, match=r"study\.jsonl"):
        _drop_incomplete_line(tmp_path / "study.jsonl")


def test_a_sweep_file_of_the_users_may_be_a_link_or_a_pipe_but_not_endless(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sweep_file(tmp_path, steps=10, seeds=1, agents="random")
    (tmp_path / "linked.toml").symlink_to(file)
    assert len(read_sweep(tmp_path / "linked.toml").trials) == 1
    reading, writing = os.pipe()
    os.write(writing, file.read_bytes())
    os.close(writing)
    assert len(read_sweep(Path(f"/dev/fd/{reading}")).trials) == 1
    os.close(reading)
    assert main(["sweep", "/dev/zero"]) == 2
    assert "/dev/zero has more than 1,048,576 bytes" in one_line(capsys)


def test_processes_of_trials_write_their_logs(tmp_path: Path) -> None:
    process = Process(["--version"], tmp_path / "log.txt", 1)
    assert process.wait(60)
    process.stop()
    assert (tmp_path / "log.txt").read_text().startswith("bdqn ")
