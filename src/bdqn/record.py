"""A run's directory: what happened, as files that any tool reads.

``config.toml``, ``episodes.csv``, ``metrics.csv`` and ``evaluations.csv`` follow from the configuration
alone: the same seed gives the same bytes. Whatever carries wall-clock time is kept apart from them:
``timing.csv``, ``monitor.csv`` (Stable-Baselines3's format), ``meta.json``, ``command.txt`` and TensorBoard's
events. Tables are only ever appended to.
"""

from __future__ import annotations

import csv
import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bdqn.envs import describe
from bdqn.provenance import git_commit, machine, versions
from bdqn.settings import SettingError
from bdqn.toml import write_toml

if TYPE_CHECKING:
    from bdqn.evaluation import Evaluation
    from bdqn.learner import Learner
    from bdqn.step import Episode

WINDOW = 100  # episodes in a mean return, as in the paper

ROLLOUT_METRICS = ("rollout/ep_rew_mean", "rollout/ep_len_mean")


def new_directory(root: Path, env: str, agent: str, seed: int) -> Path:
    """Make ``root/<env>/<agent>/<time>_s<seed>``, which no other run has."""
    parent = root / env.replace("/", "-").replace(":", "-") / agent
    name = f"{datetime.now():%Y%m%d-%H%M%S}_s{seed}"
    for attempt in range(1, 1000):
        folder = parent / (name if attempt == 1 else f"{name}_{attempt}")
        with suppress(FileExistsError):  # two runs may start in the same second
            folder.mkdir(parents=True)
            return folder
    raise FileExistsError(f"{parent} holds a thousand runs of this second.")


def claim_directory(folder: Path) -> Path:
    """Make the directory that the user named, unless it holds a run already."""
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder} is a file, but a run is a directory: choose another path.")
    if (folder / "config.toml").exists() or (folder / "meta.json").exists():
        raise SettingError(f"{folder} already holds a run: choose another directory, or remove this one first.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Table:
    """A CSV file that grows by rows. Floats are written exactly, None as an empty cell."""

    def __init__(self, path: Path, columns: Sequence[str], heading: str = "") -> None:
        self._columns = columns
        self._file = path.open("w", newline="", encoding="utf-8")
        self._file.write(heading)
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(columns)

    def add(self, *cells: Any) -> None:
        if len(cells) != len(self._columns):
            raise ValueError(f"{self._file.name} has {len(self._columns)} columns, not {len(cells)}.")
        self._writer.writerow(cells)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class RunRecord:
    """Writes one run's directory; leaving its ``with`` block notes how the run ended."""

    def __init__(
        self, folder: Path, learner: Learner, steps: int, *, command: str = "", tensorboard: bool = False
    ) -> None:
        self.folder = folder
        self.status = "running"
        self._metrics = learner.agent.metric_names
        self._recent: deque[tuple[float, int]] = deque(maxlen=WINDOW)
        self._events = _event_writer(folder) if tensorboard else None
        write_toml(folder / "config.toml", run_configuration(learner, steps))
        (folder / "command.txt").write_text(command + "\n")
        self._start, started = time.perf_counter(), datetime.now(UTC)
        self._last = (learner.num_timesteps, 0.0)  # decisions and seconds at the latest row of timing.csv
        self._meta: dict[str, Any] = {
            "status": self.status,
            "started": started.isoformat(),
            "ended": None,
            "protocol": describe(learner.envs.envs[0]),
            "versions": versions(),
            "machine": machine(),
            "device": str(learner.agent.device),
            "git_commit": git_commit(),
        }
        self._write_meta()
        heading = json.dumps({"t_start": started.timestamp(), "env_id": learner.env_name})
        columns = {
            "episodes": ("step", "env", "return", "length", "truncated"),
            "metrics": ("step", *ROLLOUT_METRICS, *self._metrics),
            "timing": ("step", "seconds", "steps_per_second"),
        }
        self._tables = {name: Table(folder / f"{name}.csv", names) for name, names in columns.items()}
        self._tables["monitor"] = Table(folder / "monitor.csv", ("r", "l", "t"), f"#{heading}\n")

    def __enter__(self) -> RunRecord:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.status = "interrupted" if issubclass(kind, KeyboardInterrupt) else "failed"
        self._meta |= {"status": self.status, "ended": datetime.now(UTC).isoformat()}
        self._write_meta()
        for table in self._tables.values():
            table.close()
        if self._events is not None:
            self._events.close()

    # --- what it is told --------------------------------------------------------------------------------

    def episode(self, step: int, episode: Episode) -> None:
        """An episode ended with decision ``step``."""
        self._recent.append((episode.raw_return, episode.length))
        cells = (step, episode.env, episode.raw_return, episode.length, int(episode.truncated))
        self._tables["episodes"].add(*cells)
        self._tables["monitor"].add(episode.raw_return, episode.length, round(self.seconds, 6))

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """The agent's latest figures after decision ``step``; one that is not known yet is left empty."""
        surprises = values.keys() - set(self._metrics)
        if surprises:
            raise ValueError(f"metrics.csv has no column for {', '.join(sorted(surprises))}.")
        rollout = dict(zip(ROLLOUT_METRICS, (self.mean_return, self.mean_length), strict=True))
        figures = rollout | {name: values.get(name) for name in self._metrics}
        self._tables["metrics"].add(step, *figures.values())
        seconds = self.seconds
        rate = (step - self._last[0]) / (seconds - self._last[1])
        self._last = (step, seconds)
        self._tables["timing"].add(step, round(seconds, 6), round(rate, 1))
        for table in self._tables.values():
            table.flush()
        self._show(step, {**figures, "time/fps": rate})

    def evaluation(self, step: int, result: Evaluation) -> None:
        """An evaluation after decision ``step``: a table of its own, made when first needed."""
        if "evaluations" not in self._tables:
            columns = ("step", "mean_reward", "std_reward", "episodes")
            self._tables["evaluations"] = Table(self.folder / "evaluations.csv", columns)
        self._tables["evaluations"].add(step, result.mean, result.std, len(result.returns))
        self._tables["evaluations"].flush()
        self._show(step, {"eval/mean_reward": result.mean})

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

    def checkpoint(self, name: str) -> Path:
        """Where the agent's state called ``name`` belongs."""
        return self.folder / "checkpoints" / name

    def _show(self, step: int, values: Mapping[str, float | None]) -> None:
        if self._events is not None:
            for name, value in values.items():
                if value is not None:
                    self._events.add_scalar(name, value, step)

    def _write_meta(self) -> None:
        (self.folder / "meta.json").write_text(json.dumps(self._meta, indent=1) + "\n")


def run_configuration(learner: Learner, steps: int) -> dict[str, Any]:
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
        "env_kwargs": learner.env_kwargs,
        "settings": configuration.values,
    }


def _event_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SettingError(f"--tensorboard needs an extra: pip install 'bdqn[tensorboard]' ({error})") from error
    return SummaryWriter(str(folder))
