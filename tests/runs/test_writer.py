"""What a run leaves behind."""

from __future__ import annotations

import csv
import errno
import json
import re
import subprocess
import sys
import threading
import tomllib
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import bdqn
from bdqn.agents import AGENTS
from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.envs.interaction import Episode
from bdqn.qlearning.metric_names import metric_names
from bdqn.runs.directory import claim_directory, locked, new_directory
from bdqn.runs.schedule import Schedule
from bdqn.runs.writer import RunWriter
from bdqn.storage.csv_table import Table
from bdqn.storage.toml import toml_text
from support.cli import Train

DETERMINISTIC = ("config.toml", "episodes.csv", "metrics.csv", "checkpoints/gen-000000000600/agent.safetensors")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_episodes_account_for_every_decision(train: Train) -> None:
    folder = train("run")
    episodes = rows(folder / "episodes.csv")
    assert list(episodes[0]) == ["step", "env", "return", "length", "truncated"]
    lengths = [int(row["length"]) for row in episodes]
    assert [int(row["step"]) for row in episodes] == [sum(lengths[: i + 1]) for i in range(len(lengths))]
    assert all(float(row["return"]) == int(row["length"]) for row in episodes)  # CartPole pays 1 per decision
    assert 600 - 500 < sum(lengths) <= 600


def test_metrics_are_rectangular_and_average_the_latest_hundred_episodes(train: Train) -> None:
    folder = train("run", "--posterior-update-interval", "2500", "--first-refit", "interval", steps=3000)
    lines = (folder / "metrics.csv").read_text().splitlines()
    assert len({line.count(",") for line in lines}) == 1
    metrics, episodes = rows(folder / "metrics.csv"), rows(folder / "episodes.csv")
    assert [int(row["step"]) for row in metrics] == list(range(200, 3001, 200))
    assert metrics[0]["posterior/std_mean"] == "" != metrics[-1]["posterior/std_mean"]
    window = [float(row["return"]) for row in episodes if int(row["step"]) <= 3000][-100:]
    assert len(episodes) > 100
    assert float(metrics[-1]["rollout/ep_rew_mean"]) == pytest.approx(sum(window) / 100, rel=1e-12)


def test_the_configuration_can_be_read_back(train: Train) -> None:
    folder = train("run", "--seed", "3", "--num-envs", "2", "--env-kwargs", "sutton_barto_reward=true")
    config = tomllib.loads((folder / "config.toml").read_text())
    assert (config["agent"], config["env"], config["seed"], config["num_envs"]) == (
        "bdqn",
        "CartPole-v1",
        3,
        2,
    )
    assert (config["steps"], config["family"], config["preset"]) == (600, "classic", "default-classic")
    assert config["env_kwargs"] == {"sutton_barto_reward": True}
    assert config["settings"] == bdqn.load(folder).configuration.values


def test_meta_command_timing_and_monitor(train: Train) -> None:
    folder = train("run")
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["status"] == "finished"
    assert meta["protocol"] == "truncated after 500 decisions"
    assert meta["started"] < meta["ended"]
    assert set(meta["versions"]) == {"python", "bdqn", "torch", "numpy", "gymnasium", "ale-py"}
    assert meta["packages"]["numpy"] == meta["versions"]["numpy"]
    assert len(meta["packages"]) > len(meta["versions"])  # what torch and others need, too
    assert (
        (folder / "command.txt").read_text().startswith("bdqn train --agent bdqn --env CartPole-v1 --steps 600 --out ")
    )
    assert [int(row["step"]) for row in rows(folder / "timing.csv")] == [200, 400, 600]
    heading, columns, *monitor = (folder / "monitor.csv").read_text().splitlines()
    assert json.loads(heading.removeprefix("#")).keys() == {"t_start", "env_id"}
    assert columns == "r,l,t"
    returns = [float(line.split(",")[0]) for line in monitor]
    assert returns == [float(row["return"]) for row in rows(folder / "episodes.csv")]


def test_a_full_disk_ends_tensorboards_events_with_one_sentence(
    train: Train, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own thread meets the error first, and Python would print a traceback for it."""
    record_writer = pytest.importorskip("tensorboard.summary.writer.record_writer")
    printed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    write, calls = record_writer.RecordWriter.write, count()

    def fill_up(self: Any, data: bytes) -> None:
        if next(calls) == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, data)

    monkeypatch.setattr(record_writer.RecordWriter, "write", fill_up)
    train("watched", "--tensorboard")
    told = "bdqn: Stopped writing TensorBoard events: [Errno 28] No space left on device. Training continues.\n"
    assert capsys.readouterr().err == told
    assert printed == []
    failing = threading.Thread(target=lambda: 1 / 0)
    failing.start()
    failing.join()
    assert len(printed) == 1  # of any other thread


def test_tensorboard_events_are_written_only_when_asked_for(train: Train) -> None:
    assert not list(train("plain").glob("events.*"))
    assert list(train("watched", "--tensorboard").glob("events.*"))


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_reports_exactly_the_metrics_that_have_columns(agent: str) -> None:
    learner = bdqn.make(agent, "CartPole-v1", learning_starts=50, buffer_size=500, features=8).learn(600)  # two refits
    assert set(learner.agent.metrics) == set(metric_names(learner.agent))


def test_a_metric_without_a_column_is_an_error_rather_than_lost(tmp_path: Path) -> None:
    learner = bdqn.make("random", "CartPole-v1", buffer_size=500)
    writer = RunWriter(tmp_path, learner, 10, Schedule())
    with pytest.raises(ValueError, match=r"no column for train/surprise"), writer:
        writer.metrics(10, {"train/surprise": 1.0})
    assert json.loads((tmp_path / "meta.json").read_text())["status"] == "failed"


def test_a_run_that_an_earlier_version_began_keeps_its_columns(train: Train) -> None:
    """It had none of the last ones, and one that nobody knows any more; all others go on as in an undisturbed run."""
    whole, resumed = train("whole", steps=1000), train("resumed", steps=600)
    table = resumed / "metrics.csv"
    columns, *cells = list(csv.reader(table.read_text().splitlines()))
    kept = columns[:-2]
    assert {*columns} - {*kept} == {"posterior/within_1_std", "posterior/within_2_std"}
    older = [[*kept, "train/forgotten"], *([*row[:-2], "7"] for row in cells)]
    table.write_text("".join(",".join(row) + "\n" for row in older))
    assert main(["resume", str(resumed), "--steps", "1000", "--quiet"]) == 0
    found, expected = rows(table), rows(whole / "metrics.csv")
    assert [row.pop("train/forgotten") for row in found] == ["7", "7", "7", "", ""]
    assert found == [{name: row[name] for name in kept} for row in expected]


def test_rows_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    learner = bdqn.make("random", "CartPole-v1", buffer_size=500)
    with RunWriter(tmp_path, learner, 100, Schedule()) as writer:
        writer.episode(10, Episode(0, 10.0, 10, False))
        writer.metrics(10, {})
        assert len(rows(tmp_path / "episodes.csv")) == len(rows(tmp_path / "metrics.csv")) == 1
        assert json.loads((tmp_path / "meta.json").read_text())["status"] == "running"


def test_run_directories_never_collide(tmp_path: Path) -> None:
    folders = [new_directory(tmp_path, "ALE/Pong-v5", "bdqn", 7) for _ in range(3)]
    assert len(set(folders)) == 3
    assert all(folder.parent == tmp_path / "ALE-Pong-v5" / "bdqn" for folder in folders)
    assert re.fullmatch(r"\d{8}-\d{6}_s7", folders[0].name)


def test_a_directory_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with locked(claim_directory(folder), new=True):
        (folder / "config.toml").write_text("")
    refused = pytest.raises(SettingError, match=r"already holds a run: continue it \(--continue\), or choose another")
    with refused, locked(claim_directory(folder), new=True):
        pass
    with pytest.raises(SettingError, match="is a file"):
        claim_directory(folder / "config.toml")


def test_floats_are_written_exactly(tmp_path: Path) -> None:
    table = Table(tmp_path / "t.csv", ("a", "b"))
    table.add(0.1 + 0.2, None)
    table.close()
    assert (tmp_path / "t.csv").read_text() == "a,b\n0.30000000000000004,\n"


def test_toml_reads_back_what_was_written() -> None:
    content = {
        "text": 'quote " backslash \\ newline \n ü',
        "number": 1e-05,
        "list": [1, 2.5, "x"],
        "odd key": True,
        "table": {"inner": {"a": 1}, "infinite": float("inf")},
    }
    assert tomllib.loads(toml_text({**content, "absent": None})) == content


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(train: Train) -> None:
    first, again, other = train("a"), train("b"), train("c", "--seed", "9")
    for name in DETERMINISTIC:
        assert (first / name).read_bytes() == (again / name).read_bytes()
        assert (first / name).read_bytes() != (other / name).read_bytes()


def test_what_rounds_is_the_same_whatever_else_a_process_has_loaded() -> None:
    program = "import numpy, scipy.linalg\n{}\nfrom bdqn.storage.provenance import arithmetic\nprint(arithmetic())"
    outputs = {
        subprocess.run([sys.executable, "-c", program.format(other)], capture_output=True, text=True, check=True).stdout
        for other in ("", "import cv2")
    }
    assert len(outputs) == 1
