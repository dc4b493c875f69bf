"""The head under gunicorn: one process, many threads, and no request left hanging at shutdown."""

import ctypes
import errno
import logging
import resource
import signal
import socket
import ssl
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker

from pit_protocol.problem import Problem
from pit_server import host_check, tls
from pit_server.app import create_app, create_head, start_background
from pit_server.context import Head
from pit_server.db import lock, migrate
from pit_server.db.database import Database
from pit_server.services.jobs import images
from pit_server.services.users import registration
from pit_server.settings import Settings
from pit_server.wakeups import Wakeups

KEEP_ALIVE_S = 60
SHUTDOWN_S = 5
HANDSHAKE_S = 5.0
LINGER_S = 1.0
HANDSHAKE = b"\x16"  # the first byte of a TLS connection
MOST_READ = 65536
PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"this head speaks TLS: use https\n"
)
PR_SET_PDEATHSIG = 1

log = logging.getLogger(__name__)


class HeadWorker(ThreadWorker):  # type: ignore[misc]
    """Exits at once: long polls would delay it, and an orphaned process would keep port and database."""

    def init_process(self) -> None:
        _die_with_parent()
        super().init_process()

    def handle(self, conn: Any) -> Any:
        is_kept = super().handle(conn)
        if not is_kept:
            _close_gracefully(conn.sock)
        return is_kept

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.wsgi.extensions["pit"].wakeups.close()
        super().handle_exit(sig, frame)


def _close_gracefully(sock: socket.socket) -> None:
    """Wait for the client to read everything and close; gunicorn would do that in its main thread."""
    deadline = time.monotonic() + LINGER_S
    with suppress(OSError, ValueError):
        sock.shutdown(socket.SHUT_WR)
        while (left_s := deadline - time.monotonic()) > 0:
            sock.settimeout(left_s)
            if not sock.recv(MOST_READ):
                break
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class HeadContext(ssl.SSLContext):
    """Bounds the TLS handshake in time and closes failed ones without a log line."""

    def wrap_socket(self, sock: socket.socket, *args: Any, **options: Any) -> ssl.SSLSocket:
        # A failed handshake closes its socket, but gunicorn wants to close its own: use a duplicate.
        with sock.dup() as copy:
            copy.settimeout(HANDSHAKE_S)
            try:
                if copy.recv(1, socket.MSG_PEEK) not in (HANDSHAKE, b""):
                    copy.recv(
                        MOST_READ
                    )  # unread data would make the kernel reset the connection before the answer
                    copy.sendall(PLAIN_ANSWER)
                    raise ssl.SSLError("the client does not speak TLS")
                wrapped = super().wrap_socket(copy, *args, **{**options, "do_handshake_on_connect": True})
            except OSError as error:
                raise ConnectionResetError(errno.ECONNRESET, str(error)) from error
        sock.close()
        wrapped.settimeout(None)
        return wrapped


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
            "limit_request_line": 8190,  # gunicorn's maximum: the log cursor of a large job is long
            "graceful_timeout": SHUTDOWN_S,
            "loglevel": "warning",
            "proc_name": "pit-head",
            "control_socket_disable": True,
        }
        if tls.uses_tls(self._settings):
            files = tls.find_files(self._settings)
            options |= {
                "certfile": str(files.certificate),
                "keyfile": str(files.key),
                # Called for each connection, so a renewed certificate needs no restart.
                "ssl_context": lambda _config, _default: make_context(files),
            }
        for name, value in options.items():
            if name in self.cfg.settings:  # older gunicorn versions have no control socket
                self.cfg.set(name, value)

    def load(self) -> Flask:
        """Called in the serving process: threads do not survive a fork."""
        head = create_head(self._settings)
        _log_setup_code(head)
        start_background(head)
        return create_app(head)


def make_context(files: tls.Files) -> HeadContext:
    context = HeadContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*files)
    return context


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent, gunicorn's arbiter, dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def serve(settings: Settings) -> None:
    """Serve until a signal stops it; a Problem if another head runs on the same database."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    # An archive of a deep directory keeps one descriptor open per level.
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held = lock.hold(settings.sqlalchemy_url)
    _check_database(settings)
    images.check(settings.image, settings)
    check_place(settings.bind)
    _log_address(settings)
    try:
        HeadApplication(settings).run()
    finally:
        del held  # the lock must live until here


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
        log.info("its certificate is %s", pin)
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
