"""Runs one trial of a sweep in its own process: ``python -m bdqn.cli.worker train ...``.

Its standard input is a pipe that the sweep holds open. When the pipe closes, the sweep has asked it to stop or is gone,
even by kill -9. The worker then saves a checkpoint and exits, so that the sweep can be continued later.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence

from bdqn.runs.exit_codes import DISK_FULL, GRACE, code_of
from bdqn.runs.progress import ignoring_output_errors


def main(argv: Sequence[str]) -> int:
    """Run a ``bdqn`` command. Returns its exit code, also for unexpected errors."""
    threading.Thread(target=_stop_when_alone, daemon=True).start()
    from bdqn.cli import main as bdqn

    try:
        code = bdqn(argv)
    except Exception as error:
        code = code_of(error)
        try:
            traceback.print_exc()
        except OSError:  # the log is on the full disk too
            code = DISK_FULL
    for stream in (sys.stdout, sys.stderr):
        with ignoring_output_errors(stream):
            stream.flush()
    return code


def _stop_when_alone() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    # It is stuck, perhaps in a step of its environment, and would keep the run's directory locked forever.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # exit now: threads left by an environment would block the exit
