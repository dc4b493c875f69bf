"""The kinds of requests. Each has threads of its own, so that no number of one kind delays another."""

from dataclasses import dataclass
from enum import StrEnum


class Traffic(StrEnum):
    SHORT = "short"  # answered as fast as the database allows
    HELD = "held"  # followers and watchers: open until there is news
    LOG = "log"  # reading a log, which may take long; held while it is followed
    SESSION = "session"  # exec and forward: held for as long as someone works in a process
    BEAT = "beat"  # the same for nodes
    TRANSFER = "transfer"  # files in and out
    LOGIN = "login"  # passwords, which take a core for a quarter of a second


@dataclass(frozen=True)
class Budget:
    threads: int
    waiting: int  # requests that may wait for a thread; further ones are refused with 503


# Threads that only wait are cheap: 500 of them cost 28 MiB.
BUDGETS = {
    # Few: each further one that has work makes the event loop and all others wait longer for Python's lock.
    Traffic.SHORT: Budget(threads=16, waiting=1000),
    Traffic.LOG: Budget(threads=48, waiting=1000),
    Traffic.HELD: Budget(threads=1000, waiting=0),
    Traffic.SESSION: Budget(threads=1000, waiting=0),  # two of a session: its client's and its worker's
    Traffic.BEAT: Budget(threads=2500, waiting=100),
    Traffic.TRANSFER: Budget(threads=128, waiting=200),
    # Few: others would wait for Python's lock behind each. Further ones are refused before Flask sees them.
    Traffic.LOGIN: Budget(threads=4, waiting=20),
}


def find_kind(declared: Traffic, *, waits: bool) -> Traffic:
    """What a request is, by what its view declares: without a time to wait it is answered at once."""
    if declared is Traffic.LOG:
        return Traffic.HELD if waits else Traffic.LOG
    return Traffic.SHORT if declared is Traffic.HELD and not waits else declared
