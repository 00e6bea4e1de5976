"""How a command of ``bdqn`` ends, for whoever started it: a shell script, a batch system or a sweep. No torch."""

from __future__ import annotations

import errno

FAILED = 1  # a run that cannot go on
TO_CORRECT = 2  # a mistake in what was asked
# As sysexits.h has them:
LOST = 69  # whatever ran it is gone, such as a node of a cluster
CRASHED = 70  # an error that nobody foresaw, such as one in the user's environment
DISK_FULL = 74  # files could not be written: the disk is full, gone or broken
TIME_IS_UP = 75  # --max-minutes is over, and the run can go on
INTERRUPTED = 130  # by a signal, and the run can go on

GRACE = 60.0  # seconds from being asked to stop until a process that has not ended counts as stuck

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}


def code_of(error: BaseException) -> int:
    """The exit code for an error that nobody foresaw."""
    return DISK_FULL if isinstance(error, OSError) and error.errno in _DISK else CRASHED
