"""One trial in a process of its own: ``python -m bdqn.cli.worker train ...``.

Its standard input is a pipe that the sweep holds open. When that closes, the sweep has asked it to stop or is gone,
even by kill -9: it then saves a checkpoint and ends, and leaves the run to whoever goes on with the sweep.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence

CRASHED = 70  # as sysexits.h has it: neither the user's mistake (2) nor a run that cannot go on (1)


def main(argv: Sequence[str]) -> int:
    """Carry out a command of ``bdqn``; an error that nobody foresaw ends with CRASHED."""
    threading.Thread(target=_stop_when_alone, daemon=True).start()
    from bdqn.cli import main as bdqn

    try:
        return bdqn(argv)
    except Exception:
        traceback.print_exc()
        return CRASHED


def _stop_when_alone() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
