"""A head that dies as by `kill -9` at a commit that a test names: every transaction is a crash point.

`python -m tests.support.faults.crashing_head before:jobs.submit serve --home …` dies before the first
commit of the route `jobs.submit`, `after:scheduling:2` after the second one of the thread that schedules,
and `after:*:7` after the seventh of all. Nothing in the head knows about it.
"""

import os
import signal
import sys
import threading

import flask
from sqlalchemy import event
from sqlalchemy.orm import Session

from pit_server.cli import cli

ANYWHERE = "*"


def crash_at(point: str) -> None:
    moment, place, count = [*point.split(":"), "1"][:3]
    left = int(count)
    lock = threading.Lock()

    def reach(_session: Session) -> None:
        nonlocal left
        if place not in (ANYWHERE, _place()):
            return
        with lock:
            left -= 1
            if left == 0:
                # The whole group: gunicorn's master would start another serving process.
                os.killpg(os.getpgrp(), signal.SIGKILL)
                signal.pause()

    event.listen(Session, {"before": "before_commit", "after": "after_commit"}[moment], reach)


def _place() -> str | None:
    """The route that is served, or the name of the background thread."""
    if flask.has_request_context():
        return flask.request.endpoint
    return threading.current_thread().name.partition("_")[0]  # threads of a pool have a number


if __name__ == "__main__":
    crash_at(sys.argv[1])
    cli(sys.argv[2:])
