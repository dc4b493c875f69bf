"""The head under gunicorn: one process, many threads, and no request left hanging when it leaves."""

import ctypes
import logging
import resource
import signal
from types import FrameType
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker

from pit_server.app import create_app, create_head, start_duties
from pit_server.db import lock
from pit_server.settings import Settings

KEEP_ALIVE_S = 60
LEAVE_WITHIN_S = 5
PR_SET_PDEATHSIG = 1


class HeadWorker(ThreadWorker):  # type: ignore[misc]
    """Leaves at once: held requests would delay it, and orphaned it would keep port and database."""

    def init_process(self) -> None:
        _die_with_parent()
        super().init_process()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.wsgi.extensions["pit"].bells.close()
        super().handle_exit(sig, frame)


class HeadApplication(BaseApplication):  # type: ignore[misc]
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        options: dict[str, Any] = {
            "bind": self._settings.bind,
            "workers": 1,
            "worker_class": HeadWorker,
            "threads": self._settings.threads,
            "keepalive": KEEP_ALIVE_S,
            "limit_request_line": 8190,  # the most there is: a large gang's log has a long cursor
            "graceful_timeout": LEAVE_WITHIN_S,
            "loglevel": "warning",
            "proc_name": "pit-head",
            "control_socket_disable": True,
        }
        for name, value in options.items():
            if name in self.cfg.settings:  # older versions have no control socket
                self.cfg.set(name, value)

    def load(self) -> Flask:
        """Called in the serving process: threads do not survive a fork."""
        head = create_head(self._settings)
        start_duties(head)
        return create_app(head)


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when gunicorn's own, which watches over it, is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def serve(settings: Settings) -> None:
    """Serve until told to leave; a Problem if another head runs on the same database."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    # An archive of a deep directory holds a descriptor for each level.
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held = lock.hold(settings.books)
    try:
        HeadApplication(settings).run()
    finally:
        del held  # it must live until here
