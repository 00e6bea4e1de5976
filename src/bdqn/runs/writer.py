"""Writes a run's directory, in formats that any tool can read.

``config.toml``, ``episodes.csv``, ``metrics.csv``, ``evaluations.csv`` and the checkpoints depend on the configuration
alone: the same seed gives the same bytes, whether or not the run was interrupted. Wall-clock times are in separate
files: ``timing.csv``, ``monitor.csv`` (the format of Stable-Baselines3), ``meta.json``, ``command.txt`` and
TensorBoard's events. Tables only grow; a resumed run first removes the rows that came after its checkpoint.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bdqn.config.settings import SettingError
from bdqn.envs import describe
from bdqn.qlearning.metric_names import metric_names
from bdqn.runs.progress import notify, rate
from bdqn.runs.recent import ROLLOUT_METRICS, RecentEpisodes
from bdqn.storage import atomic, safe_files
from bdqn.storage.csv_table import Table, columns_of
from bdqn.storage.provenance import git_commit, machine, packages, versions
from bdqn.storage.toml import toml_text

if TYPE_CHECKING:
    from bdqn.envs.interaction import Episode, Restart
    from bdqn.learner import Learner
    from bdqn.runs.callbacks.loggers import Logger
    from bdqn.runs.directory import Claim
    from bdqn.runs.evaluation import Evaluation
    from bdqn.runs.schedule import Schedule

HEADINGS = {"episodes": 1, "metrics": 1, "timing": 1, "monitor": 2, "evaluations": 1}  # lines above a table's rows
EVALUATION_COLUMNS = ("step", "mean_reward", "std_reward", "episodes")


class RunWriter:
    """Writes one run's directory. As a context manager, it also records how the run ends."""

    def __init__(
        self,
        folder: Path,
        learner: Learner,
        steps: int,
        schedule: Schedule,
        *,
        command: str = "",
        loggers: Sequence[Logger] = (),
        state: Mapping[str, Any] | None = None,
        resumed: Mapping[str, Any] | None = None,
        claim: Claim | None = None,
    ) -> None:
        """Start a run's files, or continue those in ``folder`` from ``state``.

        Args:
            folder: The run's directory.
            learner: The learner that is trained.
            steps: Decisions to train for, in total.
            schedule: When to log, evaluate and save.
            command: The command line, for ``command.txt``.
            loggers: Who else is told of metrics, evaluations and checkpoints.
            state: The state of an earlier writer, from a checkpoint, accepted by `check_state`.
            resumed: Notes about this resumption, for ``meta.json``.
            claim: The claim to the directory, which `check_directory` verifies.
        """
        self.folder = folder
        self.claim = claim
        self.status = "running"
        self._metrics = metric_names(learner.agent)
        state = state or {"rows": {}, "recent": [], "logged": 0, "evaluated": 0, "evaluation": None}
        self._rows = dict(state["rows"])
        self._recent = RecentEpisodes(state["recent"])
        self.logged: int = state["logged"]  # decision of the latest row of metrics
        self.evaluated: int = state["evaluated"]  # decision of the latest evaluation
        self._evaluation: float | None = state["evaluation"]
        self.saved = learner.num_timesteps  # decision of the latest checkpoint
        self._failing: set[str] = set()
        self._warns_of_cuts = True
        step = learner.num_timesteps
        self._config, self._command = toml_text(run_configuration(learner, steps, schedule)), command
        self._write_config_and_command()
        self._learner, self._loggers = learner, self._started(loggers, learner, steps)
        started = datetime.now(UTC)
        self._meta = _meta(learner, started)
        if resumed is not None:
            self._meta |= _past(folder) | {"ended": None}
            self._meta["resumed"].append({"time": started.isoformat(), **resumed})
        self._write_meta()
        heading = json.dumps({"t_start": started.timestamp(), "env_id": learner.env_name})
        self._tables = {
            "episodes": self._table("episodes", ("step", "env", "return", "length", "truncated")),
            "metrics": self._table("metrics", self._metric_columns()),
            "timing": self._table("timing", ("step", "seconds", "steps_per_second")),
            "monitor": self._table("monitor", ("r", "l", "t"), f"#{heading}\n"),
        }
        if self._rows.get("evaluations"):
            self._tables["evaluations"] = self._table("evaluations", EVALUATION_COLUMNS)
        else:
            (folder / "evaluations.csv").unlink(missing_ok=True)
        for table in self._tables.values():
            table.flush()
        before = max(_last_seconds(folder / "timing.csv", 1), _last_seconds(folder / "monitor.csv", 2))
        self._start = time.perf_counter() - before
        self._last = (step, before)  # decisions and seconds at the latest row of timing.csv

    def _table(self, name: str, columns: Sequence[str], heading: str = "") -> Table:
        return Table(self.folder / f"{name}.csv", columns, heading, self._rows.get(name, 0))

    def _metric_columns(self) -> Sequence[str]:
        """Return the columns of metrics.csv. A run that an earlier version started keeps its columns."""
        if self._rows.get("metrics"):
            return columns_of(self.folder / "metrics.csv")
        return ("step", *ROLLOUT_METRICS, *self._metrics)

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.status = "interrupted" if issubclass(kind, KeyboardInterrupt) else "failed"
        self._meta |= {"status": self.status, "ended": datetime.now(UTC).isoformat()}
        with self._reporting_failures("files"):
            self._write_meta()
        for table in self._tables.values():
            with self._reporting_failures("files"):
                table.close()
        self._tell("on_end")

    # --- events -----------------------------------------------------------------------------------------

    def episode(self, step: int, episode: Episode) -> None:
        """Record an episode that ended with decision ``step``."""
        self._recent.add([episode])
        cells = (step, episode.env, episode.raw_return, episode.length, int(episode.truncated))
        self._tables["episodes"].add(*cells)
        self._tables["monitor"].add(episode.raw_return, episode.length, round(self.seconds, 6))

    def restart(self, step: int, restart: Restart) -> None:
        """Record an environment that failed during decision ``step`` and was restarted."""
        self._meta["restarts"] = [
            *self._meta.get("restarts", ()),
            {"step": step, "env": restart.env, "reason": restart.reason},
        ]
        with self._reporting_failures("files"):
            self._write_meta()

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Record the agent's latest metrics after decision ``step``. Unknown ones are left empty."""
        unknown = values.keys() - set(self._metrics)
        if unknown:
            raise ValueError(f"metrics.csv has no column for {', '.join(sorted(unknown))}.")
        self.logged = step
        logged = {**self._recent.metrics(), **values}
        table = self._tables["metrics"]
        cells = {"step": step, **logged}
        table.add(*(cells.get(name) for name in table.columns))
        seconds = self.seconds
        pace = rate(step - self._last[0], seconds - self._last[1])
        self._last = (step, seconds)
        self._tables["timing"].add(step, round(seconds, 6), round(pace, 1))
        self._flush()
        self._tell("on_metrics", {**logged, "time/fps": pace})

    def evaluation(self, step: int, result: Evaluation) -> None:
        """Record an evaluation after decision ``step``. The first one creates the table."""
        self.evaluated, self._evaluation = step, result.mean
        if "evaluations" not in self._tables:
            self._tables["evaluations"] = self._table("evaluations", EVALUATION_COLUMNS)
        self._tables["evaluations"].add(step, result.mean, result.std, len(result.returns))
        self._flush()
        self._tell("on_evaluation", result)
        if result.cut and self._warns_of_cuts:
            self._warns_of_cuts = False
            notify(f"In the evaluation after {step:,} decisions, {result.remark} (--eval-max-steps).")

    def checkpoint(self, step: int, folder: Path) -> None:
        """Note that a checkpoint of decision ``step`` was written."""
        self.saved = step
        self._tell("on_checkpoint", folder)

    def _flush(self) -> None:
        with self._reporting_failures("files"):
            for table in self._tables.values():
                table.flush()

    def check_directory(self) -> bool:
        """Follow the directory if it was moved, and restore missing files. Returns whether the claim changed.

        Raises DirectoryLost if the directory no longer belongs to this run.
        """
        news = self.claim.check() if self.claim else None
        if self.claim is not None and news is not None:
            notify(news)
            self.folder = self.claim.folder
            for table in self._tables.values():
                table.path = self.folder / table.path.name
        self._rewrite_missing_files()
        return news is not None

    def _rewrite_missing_files(self) -> None:
        gone = [table for table in self._tables.values() if not table.is_in_place]
        names = [table.path.name for table in gone]
        if not os.path.lexists(self.folder / "config.toml"):
            names.append("config.toml")
            self._write_config_and_command()
        for table in gone:
            table.rewrite(table.path)
        if names:
            notify(f"Restored files that were removed from {self.folder}: {', '.join(names)}.")

    def rewrite(self, folder: Path) -> None:
        """Write the run's files to a new directory, after its own was removed."""
        self.folder = folder
        atomic.make_directory(folder)
        self._write_config_and_command()
        for table in self._tables.values():
            table.rewrite(folder / table.path.name)

    def sync(self) -> None:
        """Sync all tables to disk."""
        for table in self._tables.values():
            table.sync()
        atomic.flush_directory(self.folder)  # the tables' directory entries

    def report_failure(self, kind: str, what: str, error: Exception) -> None:
        """Report that writing fails, once until it works again."""
        if kind not in self._failing:
            self._failing.add(kind)
            notify(f"{what}: {str(error).removesuffix('.')}. Training continues.")

    def report_recovery(self, kind: str) -> None:
        """Report that writing works again, if it had failed."""
        if kind in self._failing:
            self._failing.discard(kind)
            notify(f"Writing works again ({kind}).")

    @contextmanager
    def _reporting_failures(self, kind: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.report_failure(kind, "Could not write the run's files", error)
        else:
            self.report_recovery(kind)

    # --- state ------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the start, over all resumptions."""
        return time.perf_counter() - self._start

    @property
    def episodes(self) -> int:
        """How many episodes have ended, over all resumptions."""
        return self._tables["episodes"].rows

    @property
    def mean_return(self) -> float | None:
        """Mean raw return of the latest episodes."""
        return self._recent.mean_return

    @property
    def score(self) -> float | None:
        """The score that selects the best checkpoint: the latest evaluation, or the mean return of 100 episodes."""
        if self._evaluation is not None:
            return self._evaluation
        return self.mean_return if self._recent.are_many else None

    def state(self) -> dict[str, Any]:
        """Return the state that a resumed run needs. It contains no wall-clock time."""
        return {
            "rows": {name: table.rows for name, table in self._tables.items()},
            "recent": self._recent.state(),
            "logged": self.logged,
            "evaluated": self.evaluated,
            "evaluation": self._evaluation,
        }

    @staticmethod
    def _started(loggers: Sequence[Logger], learner: Learner, steps: int) -> list[Logger]:
        """Let the loggers begin. If one cannot, the run does not start."""
        with ExitStack() as undo:
            for logger in loggers:
                try:
                    logger.on_start(learner, steps)
                except OSError:
                    raise
                except Exception as error:
                    raise SettingError(f"Cannot start writing {logger.name}: {error}") from error
                undo.callback(logger.on_end, learner)
            undo.pop_all()
        return list(loggers)

    def _tell(self, event: str, *news: Any) -> None:
        """Tell every logger. One that fails is left out from then on: another tool must not end a run."""
        for logger in tuple(self._loggers):
            try:
                getattr(logger, event)(self._learner, *news)
            except Exception as error:
                self._loggers.remove(logger)
                self.report_failure(logger.name, f"Stopped writing {logger.name}", error)

    def _write_config_and_command(self) -> None:
        """Write config.toml, and append to command.txt."""
        _write_text(self.folder / "config.toml", self._config)
        file = safe_files.open_to_write(self.folder / "command.txt", os.O_APPEND)
        with os.fdopen(file, "a", encoding="utf-8") as commands:
            commands.write(self._command + "\n")

    def _write_meta(self) -> None:
        _write_text(self.folder / "meta.json", json.dumps(self._meta, indent=1) + "\n")


def run_configuration(learner: Learner, steps: int, schedule: Schedule) -> dict[str, Any]:
    """Return everything that determines a run's deterministic files."""
    configuration = learner.configuration
    return {
        "agent": configuration.agent,
        "env": learner.env_name,
        "family": configuration.family,
        "preset": configuration.preset,
        "seed": learner.seed,
        "num_envs": learner.envs.num_envs,
        "steps": steps,
        "device": str(learner.agent.device),
        "threads": torch.get_num_threads(),
        "schedule": asdict(schedule),
        "env_kwargs": learner.env_kwargs,
        **learner.supervision.saved,
        "settings": configuration.values,
    }


def read_meta(folder: Path) -> dict[str, Any]:
    """Read a run's meta.json. Empty if the run was killed before it started."""
    path = folder / "meta.json"
    try:
        meta = safe_files.read_json(path)
    except FileNotFoundError:
        return {}
    kinds = {"status": str, "started": str, "resumed": list}
    safe_files.require(path, meta, {name: kind for name, kind in kinds.items() if name in meta})
    return meta


def _meta(learner: Learner, started: datetime) -> dict[str, Any]:
    return {
        "status": "running",
        "started": started.isoformat(),
        "ended": None,
        "resumed": [],
        "protocol": describe(learner.envs.envs[0]),
        "versions": versions(),
        "packages": packages(),
        "machine": machine(),
        "device": str(learner.agent.device),
        "git_commit": git_commit(),
    }


def _past(folder: Path) -> dict[str, Any]:
    """Return the entries of meta.json that a resumed run keeps."""
    meta = read_meta(folder)
    return {name: meta[name] for name in ("started", "resumed", "restarts") if name in meta}


def _last_seconds(table: Path, column: int) -> float:
    """Return the time in the last row of a table, in seconds."""
    cells = safe_files.last_line(table).split(",")
    with suppress(ValueError, IndexError):
        seconds = 0.0 if cells[column] in ("seconds", "t") else float(cells[column])
        if 0 <= seconds < float("inf"):
            return seconds
    raise SettingError(f"{table} is damaged: its last row has no valid time.")


def _write_text(path: Path, text: str) -> None:
    atomic.write_file(path, text.encode())
