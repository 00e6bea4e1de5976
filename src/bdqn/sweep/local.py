"""Trials as processes on this machine, and on its GPUs in turn."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bdqn.storage import safe_files
from bdqn.sweep.folder import SweepFolder
from bdqn.sweep.plan import Trial

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


class Process:
    """A trial in its own process, which exits when the pipe to it closes, also if this process is killed."""

    def __init__(self, command: Sequence[str], log: Path, threads: int, gpu: str | None = None) -> None:
        """``gpu`` is the only one that the process sees; None: all."""
        limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        if gpu is not None:
            limits[VISIBLE_GPUS] = gpu
        with os.fdopen(safe_files.open_to_write(log, os.O_APPEND), "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bdqn.cli.worker", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **limits},
                start_new_session=True,  # Ctrl-C goes to the sweep, which asks its workers to stop
            )

    def poll(self) -> int | None:
        code = self._process.poll()
        if code is not None:
            self.stop()
        return code

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Local:
    """The engine that runs trials on this machine."""

    def __init__(self, gpus: Sequence[str] = ()) -> None:
        """Each trial gets one of ``gpus``; without any, it sees all that there are."""
        self._on: dict[str, list[Process]] = {gpu: [] for gpu in gpus}

    def start(self, trial: Trial, folder: SweepFolder) -> Process:
        gpu = self._least_busy()
        process = Process(trial.command(folder.run(trial)), folder.log(trial), trial.threads, gpu)
        if gpu is not None:
            self._on[gpu].append(process)
        return process

    def _least_busy(self) -> str | None:
        for gpu, processes in self._on.items():
            self._on[gpu] = [process for process in processes if process.poll() is None]
        return min(self._on, key=lambda gpu: len(self._on[gpu]), default=None)
