"""Trials as Ray tasks, on this machine or on a cluster whose nodes share the sweep's directory."""

from __future__ import annotations

import logging
import math
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bdqn.config.extras import missing
from bdqn.config.settings import SettingError
from bdqn.runs.exit_codes import WORKER_LOST, code_of
from bdqn.storage import atomic, safe_files
from bdqn.sweep.engine import KILL_AFTER
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.local import VISIBLE_GPUS, Process
from bdqn.sweep.plan import Trial

NOT_SHARED = 3
TOKEN = "shared-storage"
CHECK_INTERVAL = 5.0  # seconds between checks that Ray is alive: tasks outlive the raylet that started them
# By default, Ray kills a trial's process with its worker, before it can save.
RUNTIME_ENV = {"env_vars": {"RAY_kill_child_processes_on_worker_exit": "false"}}


class Task:
    """A trial that runs as a Ray task."""

    def __init__(self, cluster: Cluster, ref: Any) -> None:
        self._cluster, self._ray, self._ref = cluster, cluster.ray, ref
        self._connection = cluster.connection

    def poll(self) -> int | None:
        self._cluster.check_connection()
        if self._is_lost():
            return WORKER_LOST
        ready, _ = self._ray.wait([self._ref], timeout=0)
        return self._result() if ready else None

    def stop(self) -> None:
        if not self._is_lost():
            self._ray.cancel(self._ref, force=False)  # the task then asks its process to save and exit

    def wait(self, seconds: float) -> bool:
        return self._is_lost() or bool(self._ray.wait([self._ref], timeout=seconds)[0])

    def kill(self) -> None:
        self._ray.cancel(self._ref, force=True)

    def _is_lost(self) -> bool:
        """Whether the task belongs to a lost connection. Its process then saves and exits by itself."""
        return self._cluster.connection != self._connection

    def _result(self) -> int:
        try:
            code = int(self._ray.get(self._ref))
        except self._ray.exceptions.RayError:
            return WORKER_LOST
        if code == NOT_SHARED:
            raise SettingError("A node cannot see the sweep's directory: put --out on storage that all nodes share.")
        return code


class Cluster:
    """The engine that runs trials with Ray. It reconnects when its node is gone."""

    def __init__(self, ray: Any, connect: Callable[[], None], token: str, workers: int) -> None:
        self.ray, self._connect, self._token, self._workers = ray, connect, token, workers
        self.connection = 0  # number of reconnections
        self._check_at = 0.0
        self._begin()

    def _begin(self) -> None:
        self._connect()
        # The sweep handles retries: it knows whether a trial made progress.
        self._task = self.ray.remote(max_retries=0, num_cpus=1, runtime_env=RUNTIME_ENV)(run_trial)

    def start(self, trial: Trial, folder: SweepFolder) -> Task:
        self.check_connection()
        there = SweepFolder(folder.folder.resolve())
        command = trial.command(there.run(trial))
        place = there.folder / TOKEN, self._token
        task = self._task.options(num_cpus=trial.threads, num_gpus=self._gpus(trial))
        return Task(self, task.remote(command, there.log(trial), trial.threads, *place))

    def _gpus(self, trial: Trial) -> float:
        """How much of a GPU a trial asks for."""
        if trial.device is None or not trial.device.startswith("cuda"):
            return 0.0
        return share_of_gpu(self.ray.cluster_resources().get("GPU", 0), self._workers)

    def check_connection(self) -> None:
        """Check at intervals whether Ray is alive, and reconnect if it is not."""
        if time.monotonic() < self._check_at:
            return
        self._check_at = time.monotonic() + CHECK_INTERVAL
        own = self.ray.get_runtime_context().get_node_id()
        if not any(node["NodeID"] == own and node["Alive"] for node in self.ray.nodes()):
            self.connection += 1
            self.ray.shutdown()
            self._begin()


def share_of_gpu(gpus: float, workers: int) -> float:
    """Return what each of ``workers`` trials can have of a GPU if all run at once: the whole, a half, a third, ..."""
    if not gpus:
        raise SettingError("Ray has no GPU: connect to a cluster that has one, or leave out --device.")
    return 1 / math.ceil(workers / gpus)


def run_trial(command: Sequence[str], log: Path, threads: int, shared: Path, token: str) -> int:
    """Run a trial in a Ray worker, with the same process and files as in a local sweep."""
    try:
        if safe_files.read_text(shared, safe_files.KB) != token:
            return NOT_SHARED
    except (OSError, ValueError):
        return NOT_SHARED
    try:
        process = Process(command, log, threads)
    except OSError as error:
        return code_of(error)
    try:
        with _cancellable():
            while not process.wait(0.2):  # short waits: Ray cancels between Python bytecodes, not inside a call
                pass
    finally:  # also when cancelled
        process.stop()
        if not process.wait(KILL_AFTER):
            process.kill()
    code = process.poll()
    assert code is not None
    return code


@contextmanager
def _cancellable() -> Iterator[None]:
    """Make Ray's cancellation work: it sends SIGINT, which is ignored if a shell started the sweep with ``&``."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def check_address(address: str) -> None:
    """Refuse an address that does not answer. Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise SettingError(f"--ray must be local, HOST:PORT or ray://HOST:PORT, not {address!r}.")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise SettingError(f"Cannot connect to Ray at {address}: {error}.") from error


@contextmanager
def cluster(address: str, workers: int, folder: Path, gpus: Sequence[str] = ()) -> Iterator[Cluster]:
    """Connect to Ray at an address, or start it on this machine (``local``), without its dashboard.

    On this machine, Ray uses ``gpus``, or all that there are.
    """
    try:
        import ray
    except ImportError as error:
        raise SettingError(missing("--ray", "ray", error)) from error
    if address != "local":
        check_address(address)
    token = secrets.token_hex(16)
    atomic.write_file(folder / TOKEN, token.encode())
    here = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    where = here if address == "local" else {"address": address}
    if gpus:
        os.environ[VISIBLE_GPUS] = ",".join(gpus)
        here["num_gpus"] = len(gpus)

    def connect() -> None:
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise SettingError(f"Cannot connect to Ray at {address}: {error}") from error

    try:
        yield Cluster(ray, connect, token, workers)
    finally:
        ray.shutdown()
