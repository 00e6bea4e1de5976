"""A run's directory: what happened, as files that any tool reads.

``config.toml``, ``episodes.csv``, ``metrics.csv``, ``evaluations.csv`` and the checkpoints follow from the
configuration alone: the same seed gives the same bytes, whether or not the run was interrupted. Whatever carries
wall-clock time is kept apart from them: ``timing.csv``, ``monitor.csv`` (Stable-Baselines3's format),
``meta.json``, ``command.txt`` and TensorBoard's events. Tables are only ever appended to; a resumed run first takes
back the rows that came after its checkpoint.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch

from bdqn.config.extras import missing
from bdqn.config.settings import SettingError
from bdqn.envs import describe
from bdqn.runs.progress import rate, tell
from bdqn.storage import atomic, safe_files
from bdqn.storage.csv_table import Table, columns_of
from bdqn.storage.provenance import git_commit, machine, packages, versions
from bdqn.storage.safe_files import is_count
from bdqn.storage.toml import toml_text

if TYPE_CHECKING:
    from bdqn.envs.interaction import Episode, Restart
    from bdqn.learner import Learner
    from bdqn.runs.directory import Claim
    from bdqn.runs.evaluation import Evaluation
    from bdqn.runs.schedule import Schedule

WINDOW = 100  # episodes in a mean return, as in the paper

EVALUATION_COLUMNS = ("step", "mean_reward", "std_reward", "episodes")
ROLLOUT_METRICS = ("rollout/ep_rew_mean", "rollout/ep_len_mean")


class RunRecord:
    """Writes one run's directory; leaving its ``with`` block notes how the run ended."""

    def __init__(
        self,
        folder: Path,
        learner: Learner,
        steps: int,
        schedule: Schedule,
        *,
        command: str = "",
        tensorboard: bool = False,
        state: Mapping[str, Any] | None = None,
        resumed: Mapping[str, Any] | None = None,
        claim: Claim | None = None,
    ) -> None:
        """Begin a record; or go on with the one in ``folder`` from ``state``, noting how the run was ``resumed``.

        With a ``claim`` to the directory, somebody looks after it (see `follow`).
        """
        self.folder = folder
        self.claim = claim
        self.status = "running"
        self._metrics = learner.agent.metric_names
        state = state or {"rows": {}, "recent": [], "logged": 0, "evaluated": 0, "evaluation": None}
        _check_state(state)
        self._rows = dict(state["rows"])
        self._recent: deque[tuple[float, int]] = deque(((r, n) for r, n in state["recent"]), maxlen=WINDOW)
        self.logged: int = state["logged"]  # the decision of the latest row of metrics
        self.evaluated: int = state["evaluated"]  # the decision after which it was last evaluated
        self._evaluation: float | None = state["evaluation"]
        self.saved = learner.num_timesteps  # the decision of the latest checkpoint
        self._troubles: set[str] = set()
        self._tells_of_cuts = True  # once is enough
        step = learner.num_timesteps
        make_events = _event_writer() if tensorboard else None
        self._config, self._command = toml_text(run_configuration(learner, steps, schedule)), command
        self._write_beginning()
        self._events = make_events(str(folder), purge_step=step + 1 if step else None) if make_events else None
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
        """A run that an earlier version began keeps the columns that it has."""
        if self._rows.get("metrics"):
            return columns_of(self.folder / "metrics.csv")
        return ("step", *ROLLOUT_METRICS, *self._metrics)

    def __enter__(self) -> RunRecord:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.status = "interrupted" if issubclass(kind, KeyboardInterrupt) else "failed"
        self._meta |= {"status": self.status, "ended": datetime.now(UTC).isoformat()}
        with self._troubled("record"):
            self._write_meta()
        for table in self._tables.values():
            with self._troubled("record"):
                table.close()
        if self._events is not None:
            with self._troubled("tensorboard"):
                self._events.close()

    # --- what it is told --------------------------------------------------------------------------------

    def episode(self, step: int, episode: Episode) -> None:
        """An episode ended with decision ``step``."""
        self._recent.append((episode.raw_return, episode.length))
        cells = (step, episode.env, episode.raw_return, episode.length, int(episode.truncated))
        self._tables["episodes"].add(*cells)
        self._tables["monitor"].add(episode.raw_return, episode.length, round(self.seconds, 6))

    def restart(self, step: int, restart: Restart) -> None:
        """An environment failed during decision ``step`` and was made anew."""
        self._meta["restarts"] = [
            *self._meta.get("restarts", ()),
            {"step": step, "env": restart.env, "reason": restart.reason},
        ]
        with self._troubled("record"):
            self._write_meta()

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """The agent's latest figures after decision ``step``; one that is not known yet is left empty."""
        surprises = values.keys() - set(self._metrics)
        if surprises:
            raise ValueError(f"metrics.csv has no column for {', '.join(sorted(surprises))}.")
        self.logged = step
        rollout = dict(zip(ROLLOUT_METRICS, (self.mean_return, self.mean_length), strict=True))
        figures = rollout | {name: values.get(name) for name in self._metrics}
        table = self._tables["metrics"]
        cells = {"step": step, **figures}
        table.add(*(cells.get(name) for name in table.columns))
        seconds = self.seconds
        pace = rate(step - self._last[0], seconds - self._last[1])
        self._last = (step, seconds)
        self._tables["timing"].add(step, round(seconds, 6), round(pace, 1))
        self._flush()
        self._show(step, {**figures, "time/fps": pace})

    def evaluation(self, step: int, result: Evaluation) -> None:
        """An evaluation after decision ``step``: a table of its own, made when first needed."""
        self.evaluated, self._evaluation = step, result.mean
        if "evaluations" not in self._tables:
            self._tables["evaluations"] = self._table("evaluations", EVALUATION_COLUMNS)
        self._tables["evaluations"].add(step, result.mean, result.std, len(result.returns))
        self._flush()
        self._show(step, {"eval/mean_reward": result.mean})
        if result.cut and self._tells_of_cuts:
            self._tells_of_cuts = False
            tell(f"In the evaluation after {step:,} decisions {result.remark} (--eval-max-steps).")

    def _flush(self) -> None:
        with self._troubled("record"):
            for table in self._tables.values():
                table.flush()

    def follow(self) -> bool:
        """See that the directory is still this run's, or DirectoryLost; says whether it had to be moved or mended."""
        news = self.claim.check() if self.claim else None
        if self.claim is not None and news is not None:
            tell(news)
            self.folder = self.claim.folder
            for table in self._tables.values():
                table.path = self.folder / table.path.name
        self._put_back_what_is_missing()
        return news is not None

    def _put_back_what_is_missing(self) -> None:
        gone = [table for table in self._tables.values() if not table.is_in_place]
        names = [table.path.name for table in gone]
        if not os.path.lexists(self.folder / "config.toml"):
            names.append("config.toml")
            self._write_beginning()
        for table in gone:
            table.put_back(table.path)
        if names:
            tell(f"{', '.join(names)} of {self.folder} had been removed, and were written again.")

    def put_back(self, folder: Path) -> None:
        """Write the record again, into a new directory: its own was removed."""
        self.folder = folder
        atomic.make_directory(folder)
        self._write_beginning()
        for table in self._tables.values():
            table.put_back(folder / table.path.name)

    def sync(self) -> None:
        """Bring every row to the disk."""
        for table in self._tables.values():
            table.sync()
        atomic.flush_directory(self.folder)  # where the tables' names are

    def trouble(self, kind: str, message: str) -> None:
        """Say once that something cannot be written, until it can be again."""
        if kind not in self._troubles:
            self._troubles.add(kind)
            tell(f"{message} Training goes on.")

    def over(self, kind: str) -> None:
        """A trouble is over."""
        if kind in self._troubles:
            self._troubles.discard(kind)
            tell(f"Writing works again ({kind}).")

    @contextmanager
    def _troubled(self, kind: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.trouble(kind, f"The run's files could not be written: {error}.")
        else:
            self.over(kind)

    # --- what it knows ----------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Wall-clock time since the start."""
        return time.perf_counter() - self._start

    @property
    def mean_return(self) -> float | None:
        """Raw return, averaged over the latest episodes."""
        return fmean(r for r, _ in self._recent) if self._recent else None

    @property
    def mean_length(self) -> float | None:
        """Decisions per episode, averaged over the latest episodes."""
        return fmean(length for _, length in self._recent) if self._recent else None

    @property
    def score(self) -> float | None:
        """What the best checkpoint is chosen by: the latest evaluation, or the mean return of 100 episodes."""
        if self._evaluation is not None:
            return self._evaluation
        return self.mean_return if len(self._recent) == WINDOW else None

    def state(self) -> dict[str, Any]:
        """What a resumed record needs; nothing in it tells the time."""
        return {
            "rows": {name: table.rows for name, table in self._tables.items()},
            "recent": [list(episode) for episode in self._recent],
            "logged": self.logged,
            "evaluated": self.evaluated,
            "evaluation": self._evaluation,
        }

    def _show(self, step: int, values: Mapping[str, float | None]) -> None:
        if self._events is not None:
            try:
                for name, value in values.items():
                    if value is not None:
                        self._events.add_scalar(name, value, step)
            except OSError as error:  # its writer does not recover from that
                self._events = None
                self.trouble("tensorboard", f"TensorBoard's events end here: {error}.")

    def _write_beginning(self) -> None:
        """What is known before the first decision."""
        _write_text(self.folder / "config.toml", self._config)
        file = safe_files.open_to_write(self.folder / "command.txt", os.O_APPEND)
        with os.fdopen(file, "a", encoding="utf-8") as commands:
            commands.write(self._command + "\n")

    def _write_meta(self) -> None:
        _write_text(self.folder / "meta.json", json.dumps(self._meta, indent=1) + "\n")


def run_configuration(learner: Learner, steps: int, schedule: Schedule) -> dict[str, Any]:
    """Everything that determines a run's deterministic files."""
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
    """What is known of a run besides its configuration; nothing if it was killed before it began."""
    path = folder / "meta.json"
    try:
        meta = safe_files.read_json(path)
    except FileNotFoundError:
        return {}
    kinds = {"status": str, "started": str, "resumed": list}
    safe_files.require(path, meta, {name: kind for name, kind in kinds.items() if name in meta})
    return meta


def _check_state(state: Mapping[str, Any]) -> None:
    """Refuse what ``RunRecord.state`` cannot have given: it comes from a file."""
    with suppress(KeyError, TypeError, AttributeError, ValueError):
        lengths = (length for _, length in state["recent"])
        counts = (*state["rows"].values(), state["logged"], state["evaluated"], *lengths)
        latest = 0.0 if state["evaluation"] is None else state["evaluation"]
        numbers = (latest, *(total for total, _ in state["recent"]))
        if all(map(is_count, counts)) and all(isinstance(number, int | float) for number in numbers):
            return
    raise SettingError("The checkpoint's run.json does not describe a run.")


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
    """What stays true of a run that is resumed."""
    meta = read_meta(folder)
    return {name: meta[name] for name in ("started", "resumed", "restarts") if name in meta}


def _last_seconds(table: Path, column: int) -> float:
    """The time that a table's rows have come to."""
    cells = safe_files.last_line(table).split(",")
    with suppress(ValueError, IndexError):
        seconds = 0.0 if cells[column] in ("seconds", "t") else float(cells[column])
        if 0 <= seconds < float("inf"):
            return seconds
    raise SettingError(f"{table} ends with a row that tells no time: it is damaged.")


def _write_text(path: Path, text: str) -> None:
    atomic.write_file(path, text.encode())


def _event_writer() -> Any:
    """TensorBoard's; missing, it is told of before there is a run."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SettingError(missing("--tensorboard", "tensorboard", error)) from error
    return SummaryWriter
