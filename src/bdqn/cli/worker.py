"""One trial in a process of its own: ``python -m bdqn.cli.worker train ...``.

Its standard input is a pipe that the sweep holds open. When that closes, the sweep has asked it to stop or is gone,
even by kill -9: it then saves a checkpoint and ends, and leaves the run to whoever goes on with the sweep.
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
from bdqn.runs.progress import unheard_is_fine


def main(argv: Sequence[str]) -> int:
    """Carry out a command of ``bdqn``; an error that nobody foresaw ends with a code that says so."""
    threading.Thread(target=_stop_when_alone, daemon=True).start()
    from bdqn.cli import main as bdqn

    try:
        code = bdqn(argv)
    except Exception as error:
        code = code_of(error)
        try:
            traceback.print_exc()
        except OSError:  # the log is on a full disk, too
            code = DISK_FULL
    for stream in (sys.stdout, sys.stderr):
        with unheard_is_fine(stream):
            stream.flush()
    return code


def _stop_when_alone() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    # It is stuck, in a step of its environment perhaps, and would keep the run's directory to itself for ever.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # at once: threads that an environment has left behind would keep the process waiting
