"""Real processes of the command line that begin at once: forks of one that has imported everything.

Each is a process of its own, with its own signals, files and exit; what is saved are two seconds of imports. A child
may be told to meet an accident at one of its file operations, counted from its start: to be killed there, or to be
refused by the disk.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

# All ways in which the package changes a disk through Python; what buffered files write comes just before an fsync.
OPERATIONS = ("open", "write", "fsync", "ftruncate", "replace", "rename", "mkdir", "unlink", "rmdir")


@dataclass(frozen=True)
class Accident:
    """What befalls operations ``first`` to ``last`` (only ``first`` if that is 0): kill, or an error such as ENOSPC."""

    what: str
    first: int
    last: int = 0


NOTHING = Accident("nothing", 0, -1)  # but operations are counted


class Process:
    """One command, running."""

    def __init__(self, server: Server, pid: int, log: Path) -> None:
        self.pid, self._server, self._log = pid, server, log
        self.code: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.code is None:
            self.code = self._server.ask(poll=self.pid)
        return self.code

    def wait(self, seconds: float = 60) -> int:
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                self.kill()
                raise TimeoutError(f"{self.output}{self.errors}\nThis was still running after {seconds} s.")
            time.sleep(0.002)
        assert self.code is not None
        return self.code

    def send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, unless it has ended; returns when it is gone."""
        self.send(signal.SIGKILL)
        while self.poll() is None:
            time.sleep(0.001)

    @property
    def output(self) -> str:
        return self._log.with_suffix(".out").read_text()

    @property
    def operations(self) -> int:
        """How many there were, with an accident or NOTHING."""
        return int(self._log.with_suffix(".count").read_text())

    @property
    def errors(self) -> str:
        return self._log.with_suffix(".err").read_text()


class Server:
    """Starts commands. Output goes to files beside ``logs``."""

    def __init__(self, logs: Path) -> None:
        self._logs, self._count = logs, 0
        self._started: list[Process] = []
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(Path(__file__))],
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},  # threads do not survive a fork
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.ask(poll=None) is None  # answered when everything is imported

    def ask(self, **message: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, *argv: str, accident: Accident | None = None, at: float = 0.0) -> Process:
        """Begin ``bdqn argv``, at a given time of the monotonic clock if that is to come."""
        self._count += 1
        log = self._logs / str(self._count)
        for suffix in (".out", ".err"):
            log.with_suffix(suffix).touch()  # a process may be killed before it writes anything
        detail = vars(accident) if accident else None
        process = Process(self, self.ask(start=argv, log=str(log), accident=detail, at=at), log)
        self._started.append(process)
        return process

    def run(self, *argv: str, accident: Accident | None = None) -> Process:
        """A command, until it has ended."""
        process = self.start(*argv, accident=accident)
        process.wait()
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
        self._process.kill()
        self._process.communicate()


@contextmanager
def serving(logs: Path) -> Iterator[Server]:
    server = Server(logs)
    try:
        yield server
    finally:
        server.close()


def wait_until(condition: Callable[[], object], process: Process, seconds: float = 60) -> None:
    """Wait for something that a running process will bring about."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.errors
        assert time.monotonic() < end, process.errors
        time.sleep(0.01)


# --- the process that forks -----------------------------------------------------------------------------------


def _serve() -> None:
    import bdqn.cli.inspect
    import bdqn.cli.resume
    import bdqn.cli.running
    import bdqn.cli.train
    import bdqn.learner
    import bdqn.runs.directory
    import bdqn.runs.writer
    import bdqn.storage.checkpoints

    # Much is imported only where it is used, so it is used once.
    bdqn.learner.make("bdqn", "CartPole-v1", learning_starts=8, buffer_size=64, features=4).learn(20)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # what is tested is how the program takes it
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("poll", 0) is None:
            answer = None
        elif "poll" in message:
            pid, status = os.waitpid(message["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                _child(**message)
        print(json.dumps(answer), flush=True)


def _child(start: list[str], log: str, accident: dict[str, Any] | None, at: float) -> NoReturn:
    from bdqn.cli import main

    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests run under nohup
    for number, suffix in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{log}.{suffix}", os.O_WRONLY | os.O_CREAT), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    while time.monotonic() < at:
        pass  # two that start together must not be kept apart by a sleep
    count = arrange(Accident(**accident)) if accident else lambda: 0
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        code = main(start)
    except KeyboardInterrupt:  # a moment before the program looks, or after
        code = 130
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    Path(f"{log}.count").write_text(str(count()))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # to take the interpreter apart would take a second, and there is nothing left to write


def arrange(accident: Accident) -> Callable[[], int]:
    """Let it happen when its operation comes; gives how many have come."""
    count = 0

    def operate(name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        if name == "open" and not args[1] & os.O_CREAT and not os.path.isdir(args[0]):
            return real(*args, **kwargs)  # a file that is only read
        count += 1
        if accident.first <= count <= (accident.last or accident.first):
            if accident.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(getattr(errno, accident.what), f"accident at {name}")
        return real(*args, **kwargs)

    for name in OPERATIONS:
        setattr(os, name, partial(operate, name, getattr(os, name)))
    return lambda: count


if __name__ == "__main__":
    _serve()
