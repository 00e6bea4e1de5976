"""One manifest ties model, posterior, replay and environment together: nothing of another checkpoint gets in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import bdqn
from bdqn.storage.checkpoint_files import CheckpointError
from bdqn.storage.checkpoints import Checkpoints
from support.forging import alone, forge, manifest_of

MEMBERS = (
    "agent.json",
    "agent.safetensors",
    "environments.json",
    "environments.safetensors",
    "run.json",
    "replay.safetensors",
)
NEWEST, BEFORE = "gen-000000000600", "gen-000000000500"


def refusal(newest: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        Checkpoints(newest.parent).load()
    return str(caught.value)


def test_these_are_all_members_there_are(finished_run: Path) -> None:
    assert [entry["name"] for entry in manifest_of(finished_run / "checkpoints" / NEWEST)["members"]] == [*MEMBERS]


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("whose", ["of the generation before", "of another run"])
def test_a_member_of_another_generation_is_refused_and_named(
    finished_run: Path, another_run: Path, tmp_path: Path, name: str, whose: str
) -> None:
    newest = alone(finished_run, tmp_path / "run")
    source = finished_run / "checkpoints" / BEFORE if "before" in whose else another_run / "checkpoints" / NEWEST
    assert (newest / name).read_bytes() != (source / name).read_bytes()
    shutil.copy(source / name, newest / name)
    assert str(newest / name) in refusal(newest)
    if name.startswith("agent."):
        with pytest.raises(CheckpointError, match=name):
            bdqn.load(newest)


def test_a_replay_segment_of_another_run_is_refused_and_named(
    finished_run: Path, another_run: Path, tmp_path: Path
) -> None:
    sources = {s["start"]: s["name"] for s in manifest_of(another_run / "checkpoints" / NEWEST)["segments"]}
    segments = manifest_of(finished_run / "checkpoints" / NEWEST)["segments"]
    assert len(segments) >= 3
    for i, segment in enumerate(segments):
        newest = alone(finished_run, tmp_path / f"run-{i}")
        path = newest.parent / "replay" / segment["name"]
        shutil.copy(another_run / "checkpoints" / "replay" / sources[segment["start"]], path)
        assert str(path) in refusal(newest)


def test_a_replay_segment_of_another_time_is_refused_and_named(finished_run: Path, tmp_path: Path) -> None:
    newest = alone(finished_run, tmp_path / "run")
    first, second, *_ = (newest.parent / "replay" / s["name"] for s in manifest_of(newest)["segments"])
    shutil.copy(first, second)
    assert str(second) in refusal(newest)


@pytest.mark.parametrize("names", [["manifest.json"], ["manifest.sha256"], ["manifest.json", "manifest.sha256"]])
def test_the_manifest_of_another_generation_is_refused(finished_run: Path, tmp_path: Path, names: list[str]) -> None:
    newest = alone(finished_run, tmp_path / "run")
    for name in names:
        shutil.copy(finished_run / "checkpoints" / BEFORE / name, newest / name)
    assert str(newest) in refusal(newest)


def test_a_generation_under_the_name_of_another_is_refused(finished_run: Path, tmp_path: Path) -> None:
    newest = alone(finished_run, tmp_path / "run")
    moved = newest.rename(newest.with_name("gen-000000000700"))
    assert str(moved) in refusal(moved)


def test_a_whole_generation_of_another_run_finds_no_replay_here(
    finished_run: Path, another_run: Path, tmp_path: Path
) -> None:
    newest = alone(finished_run, tmp_path / "run")
    shutil.rmtree(newest)
    shutil.copytree(another_run / "checkpoints" / NEWEST, newest)
    first = manifest_of(newest)["segments"][0]["name"]
    assert str(newest.parent / "replay" / first) in refusal(newest)


def test_even_sealed_again_an_agent_of_another_moment_is_refused(finished_run: Path, tmp_path: Path) -> None:
    newest = alone(finished_run, tmp_path / "run")
    for name in ("agent.json", "agent.safetensors"):
        shutil.copy(finished_run / "checkpoints" / BEFORE / name, newest / name)
    forge(newest)
    assert "do not match 600 decisions" in refusal(newest)
    with pytest.raises(CheckpointError, match="do not match 600 decisions"):
        bdqn.load(newest)


def test_with_an_older_generation_at_hand_the_mixed_one_is_passed_over(
    finished_run: Path, another_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    mixed = run / "checkpoints" / NEWEST / "environments.json"
    shutil.copy(another_run / "checkpoints" / NEWEST / "environments.json", mixed)
    restored = Checkpoints(run / "checkpoints").load()
    assert restored.learner.num_timesteps == 500
    (problem,) = restored.damaged
    assert str(mixed) in problem
    assert (run / "checkpoints" / f"damaged-{NEWEST}").is_dir()
