"""Exit codes of ``bdqn`` commands, for shell scripts, batch systems and sweeps. Imports no torch."""

from __future__ import annotations

import errno

FAILED = 1  # the run cannot continue
USAGE_ERROR = 2  # an error in the arguments or settings
# As in sysexits.h:
WORKER_LOST = 69  # the worker is gone, such as a node of a cluster
CRASHED = 70  # an unexpected error, such as one in the user's environment
DISK_FULL = 74  # files could not be written: the disk is full, missing or broken
TIME_LIMIT = 75  # --max-minutes has passed; the run can be resumed
INTERRUPTED = 130  # by a signal; the run can be resumed

GRACE = 60.0  # seconds that a process has to stop when asked, before it counts as stuck

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}


def code_of(error: BaseException) -> int:
    """Return the exit code for an unexpected error."""
    return DISK_FULL if isinstance(error, OSError) and error.errno in _DISK else CRASHED
