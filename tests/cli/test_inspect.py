"""``bdqn inspect``: what it says of sound checkpoints, and of others."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import bdqn
from bdqn.cli import main
from support.cli import REFITS, SMALL

SOUND = "valid: every file has the size and SHA-256 in the manifest"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with three checkpoints, whose replay memory of 300 frames has wrapped around."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    head = ["train", "--agent", "bdqn", "--env", "CartPole-v1", "--steps", "600", "--out", str(folder), "--quiet"]
    assert main([*head, *SMALL, *REFITS, "--save-freq", "200", "--buffer-size", "300"]) == 0
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def inspect(capsys: pytest.CaptureFixture[str], path: Path, *flags: str, code: int = 0) -> str:
    assert main(["inspect", str(path), *flags]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def reports(capsys: pytest.CaptureFixture[str], path: Path, code: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(inspect(capsys, path, "--json", code=code))
    return found


def test_a_run_is_described_checkpoint_by_checkpoint(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    text = inspect(capsys, run)
    assert text.count(SOUND) == 3
    for step in (200, 400, 600):
        assert f"gen-{step:012d}\n  decisions" in text
    for part in (
        "bdqn (preset default-classic, seed 0)",
        "1 x CartPole-v1",
        f"torch {version('torch')}",
        "file agent.safetensors",
        "segments, ",
        " frames in replay.safetensors\n",
    ):
        assert part in text
    assert inspect(capsys, run / "checkpoints") == text


def test_the_same_as_json(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    found = reports(capsys, run)
    assert [report["step"] for report in found] == [200, 400, 600]
    newest = found[-1]
    folder = run / "checkpoints" / "gen-000000000600"
    assert newest["path"] == str(folder)
    assert newest["problems"] == []
    assert (newest["agent"], newest["env"], newest["seed"], newest["num_envs"]) == ("bdqn", "CartPole-v1", 0, 1)
    assert newest["settings"] == bdqn.load(run).configuration.values
    assert newest["files"] == {
        path.name: path.stat().st_size for path in folder.iterdir() if not path.name.startswith("manifest")
    }
    segments = list((run / "checkpoints" / "replay").iterdir())
    assert 3 <= newest["replay"]["segments"] <= len(segments)
    assert newest["replay"]["frames"] == 75 * newest["replay"]["segments"]
    assert 0 < newest["replay"]["tail"] < 75
    assert newest["replay"]["gone"] == 0


def test_a_single_checkpoint(capsys: pytest.CaptureFixture[str], run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run / "checkpoints" / "gen-000000000400"
    (report,) = reports(capsys, folder)
    assert (report["step"], report["problems"], report["replay"]["gone"]) == (400, [], 0)
    monkeypatch.chdir(folder)
    (here,) = reports(capsys, Path("."))
    assert here == report | {"path": "."}


def test_a_saved_agent_has_no_replay(capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path) -> None:
    bdqn.load(run).save(tmp_path / "agent")
    (report,) = reports(capsys, tmp_path / "agent")
    assert (report["step"], report["problems"]) == (600, [])
    assert report["files"].keys() == {"agent.json", "agent.safetensors"}
    assert report["replay"] == {"segments": 0, "frames": 0, "bytes": 0, "gone": 0, "tail": 0}
    assert SOUND in inspect(capsys, tmp_path / "agent")


def test_tensors_are_listed_with_kind_and_shape(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    folder = run / "checkpoints" / "gen-000000000600"
    assert "posterior/factor" not in inspect(capsys, folder)
    text = inspect(capsys, folder, "--tensors")
    (line,) = [line for line in text.splitlines() if "agent.safetensors:posterior/factor " in line]
    assert line.endswith(" F64 [2, 17, 17]")
    assert "replay.safetensors:0/frames" in text
    (report,) = reports(capsys, folder)
    assert report["tensors"]["agent.safetensors"]["posterior/factor"] == "F64 [2, 17, 17]"


def test_damage_is_named_and_gives_exit_code_1(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    path = run / "checkpoints" / "gen-000000000600" / "agent.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    text = inspect(capsys, run, code=1)
    assert f"  CANNOT BE READ: {path} is damaged" in text
    assert text.count(SOUND) == 2
    assert [len(report["problems"]) for report in reports(capsys, run, code=1)] == [0, 0, 1]


@pytest.mark.parametrize("name", ["manifest.json", "manifest.sha256"])
def test_a_damaged_manifest_is_all_that_can_be_said(capsys: pytest.CaptureFixture[str], run: Path, name: str) -> None:
    folder = run / "checkpoints" / "gen-000000000600"
    (folder / name).write_bytes((folder / name).read_bytes().replace(b"a", b"b", 1))
    (report,) = reports(capsys, folder, code=1)
    assert report.keys() == {"path", "problems"}
    assert "CANNOT BE READ" in inspect(capsys, folder, code=1)


def test_a_damaged_or_missing_segment_is_named(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    segment = max((run / "checkpoints" / "replay").iterdir())
    data = segment.read_bytes()
    segment.write_bytes(data[:-1])
    assert segment.name in inspect(capsys, run, code=1)
    segment.unlink()
    (report,) = reports(capsys, run / "checkpoints" / "gen-000000000600", code=1)
    assert report["replay"]["gone"] == 1
    assert "1 of " in report["problems"][0]


def test_a_checkpoint_that_was_copied_elsewhere_is_sound_without_its_replay(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    shutil.copytree(run / "checkpoints" / "gen-000000000600", tmp_path / "copy")
    (report,) = reports(capsys, tmp_path / "copy")
    assert report["problems"] == []
    assert report["replay"]["gone"] == report["replay"]["segments"] > 0
    assert f", {report['replay']['gone']} no longer kept" in inspect(capsys, tmp_path / "copy")


def test_paths_that_hold_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name, problem in (("nowhere", "does not exist"), ("empty", "holds no checkpoint"), ("file", "holds no")):
        assert main(["inspect", str(tmp_path / name)]) == 2
        assert problem in capsys.readouterr().err


def test_it_imports_neither_torch_nor_gymnasium(run: Path) -> None:
    code = (
        "import sys\nfrom bdqn.cli import main\n"
        f"code = main(['inspect', {str(run)!r}, '--tensors'])\n"
        "print(code, [name for name in ('torch', 'gymnasium', 'matplotlib') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "0 []"
