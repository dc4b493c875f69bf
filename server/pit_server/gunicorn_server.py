"""The head under gunicorn: one process, many threads, and no request left hanging at shutdown."""

import logging
import os
import resource
import socket
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter

from pit_protocol.problem import Problem
from pit_server import host_check, log_records, tls
from pit_server.api.http.guard import release_request
from pit_server.app import create_app, create_head, start_background, take_over
from pit_server.background import loop
from pit_server.background.lock_watch import LockWatch
from pit_server.connections.front import HeadWorker
from pit_server.connections.inbound import IDLE_S
from pit_server.context import Head
from pit_server.db import lock, migrate
from pit_server.db.database import Database
from pit_server.db.generation import DEPOSED
from pit_server.db.lock import Lock
from pit_server.services.jobs import images
from pit_server.services.users import registration
from pit_server.settings import Settings
from pit_server.wakeups import LOCK_WATCH, Wakeups

SHUTDOWN_S = 5
LOST_EXIT = Arbiter.WORKER_BOOT_ERROR  # of the serving process: gunicorn then ends too, and starts no other

log = logging.getLogger(__name__)


class HeadApplication(BaseApplication):  # type: ignore[misc]
    def __init__(self, settings: Settings, generation: int, held: Lock) -> None:
        """The head's lock is held as long as this lives."""
        self._settings, self._generation, self._held = settings, generation, held
        self._head: Head | None = None  # in the serving process
        super().__init__()

    def load_config(self) -> None:
        options: dict[str, Any] = {
            "bind": self._settings.bind,
            "workers": 1,
            "worker_class": HeadWorker,
            "threads": self._settings.threads,
            "keepalive": int(IDLE_S),
            "limit_request_line": 8190,  # gunicorn's maximum: the log cursor of a large job is long
            "graceful_timeout": SHUTDOWN_S,
            "post_request": self._end_request,
            "loglevel": "warning",
            "worker_exit": lambda _arbiter, _worker: self._close(),
            "proc_name": "pit-head",
            "control_socket_disable": True,
        }
        if tls.uses_tls(self._settings):
            files = tls.find_files(self._settings)
            options |= {
                "certfile": str(files.certificate),
                "keyfile": str(files.key),
            }
        for name, value in options.items():
            if name in self.cfg.settings:  # older gunicorn versions have no control socket
                self.cfg.set(name, value)

    def _end_request(self, _worker: Any, request: Any, environ: dict[str, Any], response: Any) -> None:
        """The response has been sent, or never will be."""
        release_request(environ)
        status, answer = getattr(response, "status_code", None), request.pit_answer
        seconds = answer.note_end(status)
        if self._settings.log_requests == "on":
            fields = {"method": request.method, "path": request.path, "status": status}
            line = "%s %s: %s after %.3f s"
            fields |= {"kind": str(answer.traffic), "seconds": round(seconds, 4)}
            log.info(line, request.method, request.path, status, seconds, extra={"fields": fields})

    def _lock_watch(self, head: Head) -> LockWatch:
        return LockWatch(head.database, self._settings.sqlalchemy_url, self._held, stop_serving)

    def _close(self) -> None:
        """At a clean exit, in the serving process."""
        if self._head and self._head.database.marks:
            self._head.database.marks.close()

    def load(self) -> Flask:
        """Called in the serving process: threads do not survive a fork."""
        self._head = head = create_head(self._settings, self._generation)
        head.database.on_deposed = lambda: stop_serving(DEPOSED.message)
        _log_setup_code(head)
        start_background(head)
        loop.start("lock-watch", head.wakeups, LOCK_WATCH, self._lock_watch(head))
        return create_app(head)


def serve(settings: Settings) -> None:
    """Serve until a signal stops it; a Problem if another head runs on the same database."""
    log_records.configure(settings.log_format)
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Each connection has a descriptor.
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held = lock.hold(settings.sqlalchemy_url)
    _check_database(settings)
    generation = take_over(settings)
    images.check(settings.image, settings)
    check_place(settings.bind)
    _log_address(settings)
    HeadApplication(settings, generation, held).run()


def stop_serving(why: str) -> None:
    """End this head at once, in the middle of whatever it does: it must not serve beside another one."""
    log.critical("%s; it stops serving", why)
    os._exit(LOST_EXIT)


def _check_database(settings: Settings) -> None:
    """Raise a Problem for a newer database here, because gunicorn would log it as a traceback."""
    database = Database(settings.sqlalchemy_url, Wakeups())
    try:
        migrate.check(database)
    finally:
        database.dispose()  # its connections must not be shared with the serving process


def check_place(bind: str) -> None:
    """Raise a Problem if the address cannot be bound; gunicorn would retry and log a traceback."""
    if bind.startswith("unix:"):
        return
    host, port = tls.parse_bind(bind)
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[:1]:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Problem(
            "bad_bind", f"this head cannot listen on {bind}: {why}", "choose another address with --bind"
        ) from error


def _log_address(settings: Settings) -> None:
    """Log the head's URL and certificate; a wrong setting raises a Problem."""
    log.info("this head is %s", tls.find_url(settings))
    host_check.list_set(settings)
    if pin := tls.get_pin(settings):
        log.info("its fingerprint is %s", pin)
    elif not tls.is_on_loopback(settings):
        log.warning(
            "tls is off and tokens are sent in plain text: only a proxy with TLS may reach %s", settings.bind
        )


def _log_setup_code(head: Head) -> None:
    """Log a setup code for the first admin, as long as there is no user."""
    with head.database.write() as session:
        code = registration.make_setup_code(session)
    if code:
        log.info(
            "there is no user yet: `pit connect` and the setup code %s make the first one, an admin", code
        )
