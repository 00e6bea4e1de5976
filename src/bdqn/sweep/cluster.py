"""Trials as tasks of Ray, on this machine or on a cluster whose nodes share the sweep's directory."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bdqn.extras import missing
from bdqn.settings import SettingError
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.local import Process
from bdqn.sweep.plan import Trial

LOST = -9  # exit code of a trial whose worker or node is gone
NOT_SHARED = 3
TOKEN = "shared-storage"


class Task:
    """A trial that Ray runs somewhere."""

    def __init__(self, ray: Any, ref: Any) -> None:
        self._ray, self._ref = ray, ref

    def poll(self) -> int | None:
        ready, _ = self._ray.wait([self._ref], timeout=0)
        return self._result() if ready else None

    def stop(self) -> None:
        self._ray.cancel(self._ref, force=False)  # the task then asks its process to save and to end

    def wait(self) -> None:
        self._ray.wait([self._ref])

    def _result(self) -> int:
        try:
            code = int(self._ray.get(self._ref))
        except self._ray.exceptions.RayError:
            return LOST
        if code == NOT_SHARED:
            raise SettingError("A node does not see the sweep's directory: put --out on storage that all nodes share.")
        return code


class Cluster:
    """The engine that hands trials to Ray."""

    def __init__(self, ray: Any, token: str) -> None:
        self._ray, self._token = ray, token
        # Retries are the sweep's: it knows whether a trial came any further.
        self._task = ray.remote(max_retries=0, num_cpus=1)(run_trial)

    def start(self, trial: Trial, folder: SweepFolder, steps: int) -> Task:
        command = trial.command(folder.run(trial).resolve(), steps)
        place = folder.folder.resolve() / TOKEN, self._token
        ref = self._task.options(num_cpus=trial.threads).remote(
            command, folder.log(trial).resolve(), trial.threads, *place
        )
        return Task(self._ray, ref)


def run_trial(command: Sequence[str], log: Path, threads: int, shared: Path, token: str) -> int:
    """Runs in a worker of Ray: the same process that a local sweep would start, so its files are the same."""
    try:
        if shared.read_text() != token:
            return NOT_SHARED
    except OSError:
        return NOT_SHARED
    process = Process(command, log, threads)
    try:
        process.wait()
    finally:  # when it is cancelled, too
        process.stop()
        process.wait()
    code = process.poll()
    assert code is not None
    return code


def check_address(address: str) -> None:
    """Refuse an address where nobody answers: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise SettingError(f"--ray must be local, HOST:PORT or ray://HOST:PORT, not {address!r}.")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise SettingError(f"Ray cannot be used at {address}: {error}.") from error


@contextmanager
def cluster(address: str, workers: int, folder: Path) -> Iterator[Cluster]:
    """Ray on this machine (``local``) or at an address; its dashboard is off."""
    try:
        import ray
    except ImportError as error:
        raise SettingError(missing("--ray", "ray", error)) from error
    if address != "local":
        check_address(address)
    token = secrets.token_hex(16)
    (folder / TOKEN).write_text(token)
    here = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    where = here if address == "local" else {"address": address}
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise SettingError(f"Ray cannot be used at {address}: {error}") from error
    try:
        yield Cluster(ray, token)
    finally:
        ray.shutdown()
