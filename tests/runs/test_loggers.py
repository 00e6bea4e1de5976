"""Loggers, against the files that TensorBoard, Weights & Biases (offline) and MLflow themselves write."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import bdqn
from bdqn.cli import main
from bdqn.config.settings import SettingError
from bdqn.runs.callbacks.loggers import Logger, loggers_of
from bdqn.runs.schedule import Schedule
from bdqn.runs.writer import RunWriter
from support.cli import Train
from support.small import small
from support.wandb_files import records

Points = dict[str, dict[int, float]]  # name: decision: value
EVALUATING = ("--eval-freq", "300", "--eval-episodes", "1")


def of_tensorboard(folder: Path) -> Points:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulators.EventAccumulator(str(folder))
    found.Reload()
    return {name: {e.step: e.value for e in found.Scalars(name)} for name in found.Tags()["scalars"]}


def of_wandb(folder: Path) -> Points:
    points: Points = {}
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    for record in records(file):
        row = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for name in row.keys() - {"_step", "_runtime", "_timestamp"}:
            points.setdefault(name, {})[row["_step"]] = row[name]
    return points


def of_mlflow(uri: str) -> tuple[Any, Points]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("bdqn")
    (run,) = client.search_runs([experiment.experiment_id])
    names = run.data.metrics
    return run, {name: {m.step: m.value for m in client.get_metric_history(run.info.run_id, name)} for name in names}


def table(folder: Path) -> Points:
    """What the run's own tables say."""
    points: Points = {}
    for name, rename in (("metrics", {}), ("evaluations", {"mean_reward": "eval/mean_reward"})):
        for row in csv.DictReader((folder / f"{name}.csv").read_text().splitlines()):
            for column, text in row.items():
                column = rename.get(column, column)
                if "/" in column and text:
                    points.setdefault(column, {})[int(row["step"])] = float(text)
    return points


def same(found: Points, folder: Path) -> None:
    """All of the tables' numbers, and the speed beside them."""
    expected = table(folder)
    assert "eval/mean_reward" in expected
    assert set(found.pop("time/fps")) == set(expected["rollout/ep_rew_mean"])
    assert found.keys() == expected.keys()
    for name, points in expected.items():
        assert found[name] == pytest.approx(points, rel=1e-6), name


def test_tensorboard_has_what_the_tables_have(train: Train) -> None:
    folder = train("run", "--log", "tensorboard", *EVALUATING)
    same(of_tensorboard(folder), folder)


@pytest.mark.filterwarnings("ignore")  # of its own code
def test_wandb_has_what_the_tables_have(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="needs wandb, from the extra wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    folder = train("run", "--log", "wandb", *EVALUATING)
    wandb.teardown()  # its own process has written all
    same(of_wandb(folder), folder)
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    configs = [r.run.config.update for r in records(file) if r.HasField("run")]
    config = {item.key: json.loads(item.value_json) for item in configs[0]}
    assert config["agent"] == "bdqn"
    assert config["learning_starts"] == 100


@pytest.mark.filterwarnings("ignore")  # of its own code
@pytest.mark.parametrize("store", ["file", pytest.param("sqlite", marks=pytest.mark.long)])
def test_mlflow_has_what_the_tables_have(
    train: Train, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: str
) -> None:
    pytest.importorskip("mlflow", reason="needs mlflow-skinny, from the extra mlflow")
    if store == "sqlite":
        pytest.importorskip("sqlalchemy", reason="needs sqlalchemy, from the extra mlflow")
    uri = f"file:{tmp_path}/mlruns" if store == "file" else f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    folder = train("run", "--log", "mlflow", *EVALUATING)
    run, points = of_mlflow(uri)
    same(points, folder)
    assert run.info.status == "FINISHED"
    assert run.data.params["agent"] == "bdqn"
    assert run.data.params["learning_starts"] == "100"


def test_in_python_too(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    small("bdqn", "CartPole-v1").learn(120, bdqn.TensorBoard(tmp_path), log_freq=40, eval_freq=60, eval_episodes=1)
    found = of_tensorboard(tmp_path)
    assert set(found["rollout/ep_rew_mean"]) == {40, 80, 120}
    assert set(found["eval/mean_reward"]) == {60, 120}


def test_unknown_loggers_are_answered_with_the_nearest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["train", "--env", "CartPole-v1", "--steps", "10", "--out", str(tmp_path / "run")]
    assert main([*arguments, "--log", "wandbb"]) == 2
    told = capsys.readouterr()
    assert "Unknown logger 'wandbb'; did you mean wandb" in told.err
    assert told.out == "", "no run is announced that will not begin"


def test_a_logger_whose_package_is_missing_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(SettingError, match=r"Weights & Biases needs the extra wandb; .*\.\[wandb\]"):
        loggers_of("wandb", tmp_path)


class Failing(Logger):
    name = "to a server"

    def __init__(self, event: str) -> None:
        self._event, self.calls = event, 0

    def on_start(self, learner: bdqn.Learner, total_steps: int) -> None:
        if self._event == "start":
            raise RuntimeError("no route to host")

    def log(self, values: Mapping[str, float], decision: int) -> None:
        self.calls += 1
        raise RuntimeError("no route to host")


def test_a_logger_that_fails_does_not_end_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = bdqn.make("random", "CartPole-v1", buffer_size=500)
    logger = Failing("log")
    with RunWriter(tmp_path, learner, 10, Schedule(), loggers=[logger]) as writer:
        writer.metrics(5, {})
        writer.metrics(10, {})
    assert logger.calls == 1, "it is left out from then on"
    told = "bdqn: Stopped writing to a server: no route to host. Training continues.\n"
    assert capsys.readouterr().err == told
    assert (tmp_path / "metrics.csv").read_text().count("\n") == 3


def test_a_logger_that_cannot_begin_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    learner = bdqn.make("random", "CartPole-v1", buffer_size=500)
    with pytest.raises(SettingError, match="Cannot start writing to a server: no route to host"):
        RunWriter(tmp_path, learner, 10, Schedule(), loggers=[Failing("start")])
