"""MLflow."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bdqn.runs.callbacks.loggers import Logger, import_for, run_facts

if TYPE_CHECKING:
    from bdqn.learner import Learner

LONGEST_VALUE = 500  # characters of a parameter: older servers take no more


class MLflow(Logger):
    """Logs a run to MLflow: to ``MLFLOW_TRACKING_URI``, or where MLflow itself keeps runs if that is not set."""

    name = "to MLflow"

    def __init__(self, experiment: str = "bdqn", run_name: str | None = None, tracking_uri: str | None = None) -> None:
        self._mlflow = import_for("MLflow", "mlflow", "mlflow")
        self._experiment, self._run_name, self._uri = experiment, run_name, tracking_uri

    def on_start(self, learner: Learner, total_steps: int) -> None:
        self._client = self._mlflow.MlflowClient(tracking_uri=self._uri)
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = self._client.create_experiment(self._experiment) if found is None else found.experiment_id
        self._run = self._client.create_run(experiment, run_name=self._run_name).info.run_id
        facts = {name: str(value)[:LONGEST_VALUE] for name, value in run_facts(learner).items()}
        params = [self._mlflow.entities.Param(name, value) for name, value in facts.items()]
        self._client.log_batch(self._run, params=params)

    def log(self, values: Mapping[str, float], decision: int) -> None:
        now, kind = int(1000 * time.time()), self._mlflow.entities.Metric
        metrics = [kind(name, value, now, decision) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def on_end(self, learner: Learner) -> None:
        self._client.set_terminated(self._run, "FAILED" if sys.exc_info()[0] else "FINISHED")
