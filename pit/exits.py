"""What `pit` tells the shell when it ends."""

from enum import IntEnum


class Exit(IntEnum):
    DONE = 0
    PROBLEM = 1  # something a person can act on; stderr says what
    USAGE = 2  # the command line itself was wrong
    JOB_FAILED = 3  # `pit` did its part, but the job did not succeed
    INTERRUPTED = 130  # Ctrl-C while waiting for a job
