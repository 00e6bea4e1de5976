"""How a command of ``bdqn`` ends, for whoever started it: a shell script, a batch system or a sweep. No torch."""

from __future__ import annotations

FAILED = 1  # a run that cannot go on
TO_CORRECT = 2  # a mistake in what was asked
# As sysexits.h has them:
CRASHED = 70  # an error that nobody foresaw, such as one in the user's environment
DISK_FULL = 74  # the last checkpoint could not be written: the disk is full, gone or broken
TIME_IS_UP = 75  # --max-minutes is over, and the run can go on
INTERRUPTED = 130  # by a signal, and the run can go on
