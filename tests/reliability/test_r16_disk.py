"""A disk that is full, or broken, or read-only, does not end a run and does not harm what was saved before."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bdqn.runs.exit_codes import DISK_FULL, INTERRUPTED
from support.cartpole import deterministic_files, go_on, saved, status, train
from support.forks import NOTHING, Accident, Process, Server, wait_until

STEPS = 450


def essential(files: dict[str, bytes]) -> dict[str, bytes]:
    """What must be as if the disk had always worked: the tables and the last checkpoint. One in between may lack."""
    last = max(name for name in files if "/gen-" in name).rpartition("/")[0]
    return {name: data for name, data in files.items() if "/" not in name or name.startswith(last)}


@pytest.fixture(scope="module")
def unharmed(forks: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], int]:
    """The files of a run on a disk that works, and how many operations there were on it."""
    folder = tmp_path_factory.mktemp("unharmed") / "run"
    process = forks.run(*train(folder, STEPS), accident=NOTHING)
    assert process.code == 0
    return deterministic_files(folder), process.operations


def kind(complaint: str) -> str:
    """What could not be written, without when and why."""
    found = re.match(r"bdqn: (Could not write [a-z' ]+|Stopped writing TensorBoard events)", complaint)
    assert found, complaint
    return found[0]


def check(forks: Server, folder: Path, process: Process, expected: dict[str, bytes]) -> str:
    """A run that met an accident ended well, or said what to do; then that is done. Gives what came of it."""
    assert "Traceback" not in process.errors
    complaints = [line for line in process.errors.splitlines() if "accident at" in line]
    if process.code == 0:
        outcome = "went on" if complaints else "did not notice"
        assert len(complaints) == len({kind(line) for line in complaints})  # each kind is told of once
        assert all("Training continues." in line for line in complaints)
        # What is superfluous may stay where it cannot be removed, and nothing is said of that.
        assert complaints or deterministic_files(folder).keys() >= expected.keys()
    else:
        outcome = {DISK_FULL: "could not be saved at its end", 2: "did not begin"}[process.code]
        assert process.errors.startswith("bdqn: ")
        if process.code == DISK_FULL:
            assert "Could not write the last checkpoint." in process.errors
            assert forks.run("inspect", str(folder)).code == 0
            assert not list(folder.rglob(".tmp-*"))  # what could not be completed takes no room
        assert forks.run(*go_on(folder, STEPS)).code == 0
    assert essential(deterministic_files(folder)) == essential(expected)
    assert forks.run("inspect", str(folder)).code == 0
    assert outcome == "did not notice" or not list(folder.rglob(".tmp-*"))
    return outcome


def test_a_refusal_of_the_disk_at_any_moment_is_survived(
    forks: Server, tmp_path: Path, unharmed: tuple[dict[str, bytes], int]
) -> None:
    expected, operations = unharmed
    outcomes = set()
    for operation in (6, operations // 3, 2 * operations // 3, operations - 25):
        folder = tmp_path / str(operation)
        process = forks.run(*train(folder, STEPS), accident=Accident("ENOSPC", operation))
        outcomes.add(check(forks, folder, process, expected))
    assert outcomes >= {"did not begin", "went on", "could not be saved at its end"}


def test_a_start_that_the_disk_refuses_says_which_command_works(forks: Server, tmp_path: Path) -> None:
    commands = set()
    for operation in range(6, 20):
        folder = tmp_path / str(operation)
        process = forks.run(*train(folder, 100), accident=Accident("ENOSPC", operation, 1_000_000))
        advice = process.errors.rpartition("free some space and ")[2]
        if "Cannot write to the disk" not in process.errors:
            continue
        assert process.code == DISK_FULL
        resumes = advice == f"continue with bdqn resume {folder}.\n"
        assert resumes or advice == "try again.\n"
        commands.add(resumes)
        assert forks.run(*(("resume", str(folder), "--quiet") if resumes else train(folder, 100))).code == 0
    assert commands == {True, False}


def test_a_run_without_any_checkpoint_says_how_it_can_go_on(forks: Server, tmp_path: Path) -> None:
    operations = forks.run(*train(tmp_path / "whole", 100), accident=NOTHING).operations
    folder = tmp_path / "run"
    process = forks.run(*train(folder, 100), accident=Accident("ENOSPC", operations - 20, 1_000_000))
    assert process.code == DISK_FULL
    last = process.errors.splitlines()[-1]
    assert last.endswith(f"No checkpoint was written yet; bdqn resume {folder} starts from the beginning.")
    assert forks.run("resume", str(folder), "--quiet").code == 0


@pytest.mark.long
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS"])
def test_a_refusal_of_the_disk_at_every_single_operation_is_survived(
    forks: Server, tmp_path: Path, unharmed: tuple[dict[str, bytes], int], error: str
) -> None:
    expected, operations = unharmed
    outcomes: dict[str, list[int]] = {}
    for operation in range(1, operations + 1):
        folder = tmp_path / str(operation)
        process = forks.run(*train(folder, STEPS), accident=Accident(error, operation))
        outcomes.setdefault(check(forks, folder, process, expected), []).append(operation)
    counts = {outcome: len(numbers) for outcome, numbers in outcomes.items()}
    print(f"{error} at each of {operations} operations: {counts}")
    # Only what comes before the first decision may keep a run from beginning.
    assert max(outcomes["did not begin"]) < min(outcomes["went on"])


def test_a_long_outage_is_told_once_and_no_row_of_it_is_missing_afterwards(forks: Server, tmp_path: Path) -> None:
    unharmed, folder = tmp_path / "unharmed", tmp_path / "run"
    operations = forks.run(*train(unharmed, 1_000), accident=NOTHING).operations
    # It begins before the first evaluation, so that even the table for it cannot be made, and lasts for 15 refusals.
    begin = operations // 5
    process = forks.run(*train(folder, 1_000), accident=Accident("EIO", begin, begin + 14))
    assert process.code == 0
    complaints = [line for line in process.errors.splitlines() if "accident" in line]
    assert sum("Could not write a checkpoint" in line for line in complaints) == 1
    assert sum("Could not write the run's files" in line for line in complaints) == 1
    assert len(complaints) <= 3  # and one of the replay memory
    assert process.errors.count("Writing works again") == len(complaints)
    assert essential(deterministic_files(folder)) == essential(deterministic_files(unharmed))
    assert b"\n300," in deterministic_files(folder)["evaluations.csv"]
    assert forks.run("inspect", str(folder)).code == 0


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """A disk in memory, in a namespace of its own: it needs no rights, and goes with the process that holds it."""
    hold = f"mount -t tmpfs -o size={size} none /mnt && echo ready && exec cat"
    with subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hold],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stderr is not None
            if holder.stdout.readline() != "ready\n":
                pytest.skip(f"no small disk can be mounted here: {holder.stderr.read().strip()}")
            yield Path(f"/proc/{holder.pid}/root/mnt")
        finally:
            holder.kill()


def fill(path: Path) -> None:
    """Leave no room on the disk."""
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1024))


needs_small_disk = pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare makes the room for a small disk")


@needs_small_disk
def test_on_a_disk_that_is_full_for_a_while_training_goes_on_and_nothing_is_lost(forks: Server, tmp_path: Path) -> None:
    with small_disk("2m") as disk:
        folder, filler = disk / "run", disk / "filler"
        process = forks.start(*train(folder, 100_000))  # it is stopped when all of this has been seen
        wait_until(lambda: saved(folder), process)

        def full() -> bool:
            fill(filler)  # again and again: a failed save gives back what it took
            return (
                "Could not write a checkpoint" in process.errors and "Could not write the run's files" in process.errors
            )

        wait_until(full, process)
        assert "[Errno 28] No space left on device" in process.errors
        before = saved(folder)
        time.sleep(0.3)  # for another failed save or two
        assert forks.run("inspect", str(folder)).code == 0
        assert saved(folder) == before
        assert process.poll() is None  # it trains on
        filler.unlink()
        wait_until(lambda: saved(folder) > before, process)
        wait_until(lambda: process.errors.count("works again") == process.errors.count("Training continues."), process)
        process.send(signal.SIGINT)
        assert process.wait() == INTERRUPTED
        told = process.errors.splitlines()
        assert len(told) <= 6  # of the tables, the checkpoints and the replay memory: once, and once that it is over
        steps = saved(folder) + 200
        assert forks.run("resume", str(folder), "--quiet", "--steps", str(steps)).code == 0
        assert forks.run(*train(unharmed := tmp_path / "unharmed", steps)).code == 0
        assert essential(deterministic_files(folder)) == essential(deterministic_files(unharmed))
        assert status(folder) == "finished"
        assert forks.run("inspect", str(folder)).code == 0
    print(f"Full after decision {before}:", *told, sep="\n  ")


@pytest.mark.long
@needs_small_disk
def test_a_full_disk_ends_tensorboards_events_and_not_the_run(forks: Server, tmp_path: Path) -> None:
    """Its writer works in a thread of its own, and fails in ours at the next figure, or when it is closed."""
    with small_disk("2m") as disk:
        folder, filler = disk / "run", disk / "filler"
        process = forks.start(*train(folder, 100_000, "--tensorboard"))
        wait_until(lambda: saved(folder), process)

        def told() -> bool:
            fill(filler)
            return (
                "Could not write a checkpoint" in process.errors
                and "Stopped writing TensorBoard events" in process.errors
            )

        wait_until(told, process)
        process.send(signal.SIGTERM)
        assert process.wait() == DISK_FULL
        assert "Could not write the last checkpoint." in process.errors.splitlines()[-1]
        filler.unlink()
        assert forks.run("inspect", str(folder)).code == 0
        assert forks.run("resume", str(folder), "--quiet", "--steps", str(saved(folder) + 100)).code == 0
