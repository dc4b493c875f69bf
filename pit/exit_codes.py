"""The exit codes of `pit`."""

from enum import IntEnum


class Exit(IntEnum):
    DONE = 0
    PROBLEM = 1  # an error that the user can act on; see stderr
    USAGE = 2  # wrong command line
    JOB_FAILED = 3  # the job itself did not succeed
    TIMED_OUT = 124  # `pit wait --timeout`, as timeout(1)
    INTERRUPTED = 130  # Ctrl-C while waiting for a job
