"""Runs and agents that were written once, and kept: what bdqn saved stays readable, believes the same, goes on.

Format 3 is that of bdqn 0.1, and every later 0.x must read it (docs/promises.md). How they were made:
tests/support/golden.py.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bdqn
from bdqn.agents import AGENTS
from bdqn.cli import main
from bdqn.storage import migrations
from bdqn.storage.checkpoint_files import CheckpointError
from bdqn.storage.checkpoints import Checkpoints
from bdqn.storage.migrations import FORMAT
from support.forging import Change, forge, forge_json, manifest_of
from support.golden import GOLDEN, OBSERVATIONS, SETTINGS, STEPS

# When there is another format, its golden directory stands beside this one, and both are tested.
OF_0_1 = GOLDEN / "format-3"
NEWEST = OF_0_1 / "run" / "checkpoints" / f"gen-{STEPS:012d}"
EXPECTED = json.loads((OF_0_1 / "expected.json").read_text())
Q_VALUES = json.loads((OF_0_1 / "agents" / "q_values.json").read_text())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(OF_0_1 / "run", tmp_path / "run")
    return tmp_path / "run"


def test_there_is_one_of_the_current_format_and_they_are_small() -> None:
    assert (GOLDEN / f"format-{FORMAT}").is_dir()
    assert manifest_of(NEWEST)["format"] == 3
    assert len(list(NEWEST.parent.glob("gen-*"))) == 2
    assert Q_VALUES.keys() == AGENTS.keys()
    assert sum(path.stat().st_size for path in OF_0_1.rglob("*")) < 500_000


def test_it_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(OF_0_1 / "run"), "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)
    assert [report["step"] for report in reports] == [STEPS - 100, STEPS]
    assert all(report["replay"]["gone"] == 0 for report in reports)


@pytest.mark.parametrize("path", [OF_0_1 / "run", NEWEST.parent, NEWEST], ids=["run", "checkpoints", "checkpoint"])
def test_it_loads_and_believes_what_it_believed(path: Path) -> None:
    learner = bdqn.load(path)
    assert learner.num_timesteps == STEPS
    observations = np.array(EXPECTED["observations"])
    belief = learner.q_posterior(observations)
    assert_allclose(learner.q_values(observations), EXPECTED["q_values"], rtol=0, atol=1e-6)
    assert_allclose(belief.std, EXPECTED["std"], rtol=0, atol=1e-6)
    assert_allclose(belief.predictive_std, EXPECTED["predictive_std"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", Q_VALUES)
def test_an_agent_of_every_kind_loads_and_goes_on(name: str) -> None:
    learner = bdqn.load(OF_0_1 / "agents" / name)
    assert_allclose(learner.q_values(OBSERVATIONS), Q_VALUES[name], rtol=0, atol=1e-6)
    learner.learn(150)  # past the next refit
    assert np.isfinite(learner.q_values(OBSERVATIONS)).all()


def test_it_comes_back_mid_episode_with_its_replay(run: Path) -> None:
    restored = Checkpoints(run / "checkpoints").load()
    assert restored.restarted == {}
    assert restored.replay
    assert restored.damaged == ()
    assert len(restored.learner.agent.replay) > 250
    restored.learner.learn(150)  # past a refit


def test_it_is_evaluated_and_watched(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    assert f"after {STEPS:,} decisions" in capsys.readouterr().out
    page = tmp_path / "watch.html"
    assert main(["watch", str(run), "--out", str(page), "--max-steps", "5"]) == 0
    assert "5 decisions" in capsys.readouterr().out
    assert "Belief about Q" in page.read_text()


def test_a_run_of_today_has_its_files_columns_and_keys(tmp_path: Path) -> None:
    """More may be added."""
    assert main(["train", *SETTINGS, "--out", str(tmp_path / "run")]) == 0
    golden, now = OF_0_1 / "run", tmp_path / "run"
    for path in filter(Path.is_file, golden.iterdir()):
        assert (now / path.name).is_file()
    for table in golden.glob("*.csv"):
        line = 1 if table.name == "monitor.csv" else 0  # a heading precedes its columns
        before, after = ((one / table.name).read_text().splitlines()[line].split(",") for one in (golden, now))
        assert set(before) <= set(after), table.name
    before, after = (tomllib.loads((one / "config.toml").read_text()) for one in (golden, now))
    assert before.keys() <= after.keys()
    for section in ("schedule", "settings"):
        assert before[section].keys() <= after[section].keys()


def test_it_goes_on_as_a_run(run: Path) -> None:
    assert main(["resume", str(run), "--steps", str(STEPS + 150), "--quiet"]) == 0
    assert bdqn.load(run).num_timesteps == STEPS + 150
    steps = [int(line.split(",")[0]) for line in (run / "metrics.csv").read_text().splitlines()[1:]]
    assert steps == list(range(100, STEPS + 150, 100))


def test_a_run_of_an_earlier_format_is_read_by_its_migration_and_goes_on(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Format 2 stands for any: here it called two things by other names."""

    def rename(old: str, new: str) -> Change:
        return lambda content: {new if name == old else name: value for name, value in content.items()}

    for folder in (run / "checkpoints").glob("gen-*"):
        forge_json(folder, "agent.json", rename("updates", "gradient_steps"))
        forge_json(folder, "run.json", rename("logged", "written"))
        forge(folder, lambda manifest: manifest.update(format=2))
    changes = {"agent.json": rename("gradient_steps", "updates"), "run.json": rename("written", "logged")}
    monkeypatch.setitem(migrations.MIGRATIONS, 2, changes)
    assert_allclose(bdqn.load(run).q_values(OBSERVATIONS), EXPECTED["q_values"], rtol=0, atol=1e-6)
    assert main(["resume", str(run), "--steps", str(STEPS + 150), "--quiet"]) == 0
    newest = sorted((run / "checkpoints").glob("gen-*"))[-1]
    assert manifest_of(newest)["format"] == FORMAT
    assert bdqn.load(run).num_timesteps == STEPS + 150


@pytest.mark.parametrize("number", [1, 2, 4])
def test_another_format_is_refused_and_says_which_it_is(
    run: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    for folder in (run / "checkpoints").glob("gen-*"):
        forge(folder, lambda manifest: manifest.update(format=number, bdqn="9.9"))
    message = f"has format {number}, written by bdqn '9.9', but bdqn .* reads format 3"
    with pytest.raises(CheckpointError, match=message):
        bdqn.load(run)
    with pytest.raises(CheckpointError, match=message):
        Checkpoints(run / "checkpoints").load()
    for verb in ("resume", "evaluate"):
        assert main([verb, str(run)]) == 2
        assert f"format {number}" in capsys.readouterr().err
    assert main(["inspect", str(run)]) == 1
    assert f"format {number}" in capsys.readouterr().out


def test_an_agent_of_format_1_as_it_was_is_refused_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It had no seal, and other files."""
    (tmp_path / "manifest.json").write_text('{\n "format": 1,\n "bdqn": "0.1.0",\n "agent": "bdqn"\n}\n')
    for name in ("tensors.safetensors", "state.json"):
        (tmp_path / name).write_text("")
    with pytest.raises(CheckpointError, match=r"has format 1, but bdqn .* reads format 3"):
        bdqn.load(tmp_path)
    assert main(["inspect", str(tmp_path)]) == 1
    assert "has format 1, but bdqn" in capsys.readouterr().out
