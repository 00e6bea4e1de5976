"""Every changed bit is noticed; the run then goes on from the newest checkpoint that is sound, and ends the same.

Which checkpoint that is follows from which of them name the damaged file: replay segments are shared.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bdqn.cli import main
from bdqn.storage.checkpoint_files import CheckpointError
from bdqn.storage.checkpoints import Checkpoints
from support.cartpole import deterministic_files
from support.forging import forge_json, manifest_of

Damage = Callable[[bytes, random.Random], bytes | None]  # None: the file is gone


def flip(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def extend(data: bytes, rng: random.Random) -> bytes:
    return data + rng.randbytes(rng.randint(1, 100))


def zero(data: bytes, rng: random.Random) -> bytes:
    """A stretch that was never written: what a crash leaves of a file that was not flushed."""
    start = rng.randrange(len(data))
    return data[:start] + bytes(len(data) - start) if any(data[start:]) else bytes(len(data))


def remove(data: bytes, rng: random.Random) -> None:
    return None


OTHERS: tuple[Damage, ...] = (truncate, extend, zero, remove)


def files_of(folder: Path) -> list[Path]:
    """All that a checkpoint consists of, its manifest, seal and replay segments included."""
    segments = [folder.parent / "replay" / segment["name"] for segment in manifest_of(folder)["segments"]]
    return sorted(folder.iterdir()) + segments


@contextmanager
def damaged(path: Path, damage: Damage, rng: random.Random) -> Iterator[None]:
    """A file as it was after this block, and damaged within; what was set aside comes back to its place too."""
    before = path.read_bytes()
    after = damage(before, rng)
    assert after != before
    path.unlink() if after is None else path.write_bytes(after)
    try:
        yield
    finally:
        for folder in path.parents[1].rglob("damaged-*"):
            folder.rename(folder.with_name(folder.name.removeprefix("damaged-")))
        path.write_bytes(before)


def assert_noticed(checkpoints: Path, path: Path, damage: Damage, rng: random.Random) -> str:
    """Damage a file, load, and see that it was noticed; says what came of it."""
    generations = sorted(checkpoints.glob("gen-*"))
    needed = path in files_of(generations[-1])
    sound = [folder for folder in generations if path not in files_of(folder)]
    # The best checkpoint outlives its segments; it cannot be gone on from, and so does not count.
    sound = [folder for folder in sound if all(file.exists() for file in files_of(folder))]
    with damaged(path, damage, rng):
        if not needed:
            assert Checkpoints(checkpoints).load().damaged == ()
            return "not needed"
        if not sound:
            with pytest.raises(CheckpointError, match="holds no valid checkpoint") as caught:
                Checkpoints(checkpoints).load()
            assert path.name in str(caught.value)
            assert sorted(checkpoints.glob("gen-*")) == generations  # nothing to go on from: all stays as it is
            return "refused"
        restored = Checkpoints(checkpoints).load()
        assert f"gen-{restored.learner.num_timesteps:012d}" == sound[-1].name
        passed_over = generations[generations.index(sound[-1]) + 1 :]
        assert len(restored.damaged) == len(passed_over)
        assert any(path.name in problem for problem in restored.damaged)
        assert sorted(checkpoints.glob("damaged-*")) == [g.with_name(f"damaged-{g.name}") for g in passed_over]
        return "fell back"


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished_run, tmp_path / "run")
    return tmp_path / "run"


def test_flipped_bits_are_noticed(run: Path) -> None:
    rng = random.Random(1)
    checkpoints = run / "checkpoints"
    paths = files_of(max(checkpoints.glob("gen-*")))
    assert len(paths) >= 6 + 2 + 3
    seen = Counter(assert_noticed(checkpoints, paths[i % len(paths)], flip, rng) for i in range(150))
    assert seen.keys() == {"fell back", "refused"}
    assert seen["fell back"] >= 100


@pytest.mark.parametrize("damage", OTHERS)
def test_other_damage_is_noticed_in_every_file(run: Path, damage: Damage) -> None:
    rng = random.Random(2)
    for path in files_of(max((run / "checkpoints").glob("gen-*"))):
        assert_noticed(run / "checkpoints", path, damage, rng)


def test_damage_to_an_older_checkpoint_does_not_matter(run: Path) -> None:
    rng = random.Random(3)
    oldest, *_, newest = sorted((run / "checkpoints").glob("gen-*"))
    only_there = set(files_of(oldest)) - set(files_of(newest))
    for path in sorted(path for path in only_there if path.exists()):
        assert assert_noticed(run / "checkpoints", path, flip, rng) == "not needed"


def goes_on_the_same(run: Path, expected: Path, path: Path, damage: Damage, rng: random.Random) -> list[str]:
    """Damage a file for good, resume on the command line, and compare; gives what the run notes as lost."""
    changed = damage(path.read_bytes(), rng)
    path.unlink() if changed is None else path.write_bytes(changed)
    assert main(["resume", str(run), "--steps", "800", "--quiet"]) == 0
    for folder in (run / "checkpoints").glob("damaged-*"):
        shutil.rmtree(folder)
    assert deterministic_files(run) == deterministic_files(expected)
    lost: list[str] = json.loads((run / "meta.json").read_text())["resumed"][-1]["lost"]
    return lost


@pytest.fixture(scope="module")
def extended_run(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What must come out: the run resumed without any damage."""
    run = tmp_path_factory.mktemp("extended") / "run"
    shutil.copytree(finished_run, run)
    assert main(["resume", str(run), "--steps", "800", "--quiet"]) == 0
    return run


def test_the_run_goes_on_from_the_checkpoint_before_and_ends_byte_for_byte_the_same(
    run: Path, extended_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max((run / "checkpoints").glob("gen-*"))
    lost = goes_on_the_same(run, extended_run, newest / "agent.safetensors", flip, random.Random(4))
    assert len(lost) == 1
    assert f"Skipped a damaged checkpoint: {newest / 'agent.safetensors'} is damaged" in lost[0]
    assert lost[0] in capsys.readouterr().err  # said, and not only noted


def test_a_checkpoint_that_is_damaged_again_is_passed_over_again(run: Path, extended_run: Path) -> None:
    newest = max((run / "checkpoints").glob("gen-*"))
    for _ in range(2):
        (newest / "run.json").write_bytes(b"{}")
        assert Checkpoints(run / "checkpoints").load().learner.num_timesteps == 500
        assert main(["resume", str(run), "--steps", "600", "--quiet"]) == 0
    assert goes_on_the_same(run, extended_run, newest / "manifest.sha256", remove, random.Random(5))


@pytest.mark.parametrize("name", ["episodes", "metrics", "evaluations", "timing", "monitor"])
@pytest.mark.parametrize("kept", ["some rows", "half a row"])
def test_a_table_that_lacks_rows_makes_the_run_go_on_from_the_checkpoint_before_them(
    run: Path, extended_run: Path, name: str, kept: str
) -> None:
    path, newest = run / f"{name}.csv", max((run / "checkpoints").glob("gen-*"))
    data = path.read_bytes()
    less = data[:-3] if kept == "half a row" else data[: data[:-1].rindex(b"\n") + 1]
    lost = goes_on_the_same(run, extended_run, path, lambda data, rng: less, random.Random(6))
    assert lost[0].startswith(f"Skipped a damaged checkpoint: {newest} counts ")
    assert lost[0].endswith(f" rows of {path}, which has fewer: rows were removed.")


def test_a_table_that_is_gone_fits_no_checkpoint(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "episodes.csv").unlink()
    before = sorted((run / "checkpoints").iterdir())
    assert main(["resume", str(run), "--steps", "800", "--quiet"]) == 2
    error = capsys.readouterr().err
    assert "holds no valid checkpoint: restore the damaged files from a copy, or start a new run." in error
    assert f"rows of {run / 'episodes.csv'}, which has fewer" in error
    assert sorted((run / "checkpoints").iterdir()) == before


@pytest.mark.parametrize("number", [int("9" * 400), math.inf, math.nan], ids=["400 digits", "infinity", "nan"])
@pytest.mark.parametrize("key", ["recent", "evaluation"])
def test_a_number_that_no_run_can_have_makes_a_checkpoint_a_damaged_one(
    run: Path, extended_run: Path, key: str, number: float
) -> None:
    newest = max((run / "checkpoints").glob("gen-*"))
    forge_json(newest, "run.json", lambda state: state.update({key: [[number, 9]] if key == "recent" else number}))
    lost = goes_on_the_same(run, extended_run, newest / "run.json", lambda data, rng: data, random.Random(7))
    assert lost == [f"Skipped a damaged checkpoint: {newest / 'run.json'} is not the state of a run."]


@pytest.mark.parametrize("place", ["oldest", "newest"])
def test_a_directory_in_place_of_a_replay_segment_is_set_aside(
    run: Path, extended_run: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    newest = max((run / "checkpoints").glob("gen-*"))
    segments = [run / "checkpoints" / "replay" / segment["name"] for segment in manifest_of(newest)["segments"]]
    segment = max(segments, key=lambda path: path.name) if place == "newest" else min(segments)
    segment.unlink()
    segment.mkdir()
    (segment / "a file of the user").touch()
    if place == "oldest":  # every checkpoint needs it
        assert main(["resume", str(run), "--steps", "800", "--quiet"]) == 2
        assert f"{segment} is a directory, not a regular file" in capsys.readouterr().err
        return
    assert main(["resume", str(run), "--steps", "800", "--quiet"]) == 0
    for folder in (run / "checkpoints").glob("damaged-*"):
        shutil.rmtree(folder)
    aside = segment.with_name(f"damaged-{segment.name}")
    assert (aside / "a file of the user").exists()
    shutil.rmtree(aside)
    assert deterministic_files(run) == deterministic_files(extended_run)


@pytest.mark.long
def test_five_thousand_flipped_bits_are_all_noticed(run: Path) -> None:
    rng = random.Random(6)
    checkpoints = run / "checkpoints"
    paths = files_of(max(checkpoints.glob("gen-*")))
    seen: Counter[tuple[str, str]] = Counter()
    for i in range(5_000):
        path = paths[i % len(paths)]
        kind = path.name if path.parent.name != "replay" else "replay segment"
        seen[kind, assert_noticed(checkpoints, path, flip, rng)] += 1
    for i in range(1_000):
        damage = OTHERS[i % 4]
        seen[damage.__name__, assert_noticed(checkpoints, rng.choice(paths), damage, rng)] += 1
    print(f"all of {sum(seen.values())} damages noticed")
    for (kind, outcome), count in sorted(seen.items()):
        print(f"  {kind}: {outcome} {count}")


@pytest.mark.long
def test_whatever_is_damaged_the_run_ends_byte_for_byte_the_same(
    finished_run: Path, extended_run: Path, tmp_path: Path
) -> None:
    rng = random.Random(7)
    before, newest = sorted((finished_run / "checkpoints").glob("gen-*"))[-2:]
    paths = sorted(set(files_of(newest)) - set(files_of(before)))
    count = 0
    for path in paths:
        for damage in (flip, *OTHERS):
            run = tmp_path / f"run-{count}"
            shutil.copytree(finished_run, run)
            assert goes_on_the_same(run, extended_run, run / path.relative_to(finished_run), damage, rng)
            shutil.rmtree(run)
            count += 1
    print(f"{count} damaged runs, all of them end like the one that was not")
