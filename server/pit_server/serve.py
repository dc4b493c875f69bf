"""The head under gunicorn: one process, many threads, and no request left hanging when it leaves."""

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
from pit_server import tls
from pit_server.app import create_app, create_head, start_duties
from pit_server.db import lock
from pit_server.head import Head
from pit_server.services import images, registration
from pit_server.settings import Settings

KEEP_ALIVE_S = 60
LEAVE_WITHIN_S = 5
HANDSHAKE_S = 5.0
LINGER_S = 1.0
HANDSHAKE = b"\x16"  # what a client that speaks TLS begins with
MOST_READ = 65536
PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"this head speaks TLS: use https\n"
)
PR_SET_PDEATHSIG = 1

log = logging.getLogger(__name__)


class HeadWorker(ThreadWorker):  # type: ignore[misc]
    """Leaves at once: held requests would delay it, and orphaned it would keep port and database."""

    def init_process(self) -> None:
        _die_with_parent()
        super().init_process()

    def handle(self, conn: Any) -> Any:
        is_kept = super().handle(conn)
        if not is_kept:
            _take_leave(conn.sock)
        return is_kept

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.wsgi.extensions["pit"].bells.close()
        super().handle_exit(sig, frame)


def _take_leave(sock: socket.socket) -> None:
    """Let the client read to the end and close; gunicorn would wait for that in its main thread."""
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
    """Waits for nobody: who does not come to terms soon is sent away, without a word in the log."""

    def wrap_socket(self, sock: socket.socket, *args: Any, **options: Any) -> ssl.SSLSocket:
        # A handshake that fails closes what it was given, which gunicorn wants to close itself.
        with sock.dup() as copy:
            copy.settimeout(HANDSHAKE_S)
            try:
                if copy.recv(1, socket.MSG_PEEK) not in (HANDSHAKE, b""):
                    copy.recv(MOST_READ)  # what is left unread would make the kernel drop the answer
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
            "limit_request_line": 8190,  # the most there is: a large gang's log has a long cursor
            "graceful_timeout": LEAVE_WITHIN_S,
            "loglevel": "warning",
            "proc_name": "pit-head",
            "control_socket_disable": True,
        }
        if tls.uses_tls(self._settings):
            files = tls.find_files(self._settings)
            options |= {
                "certfile": str(files.certificate),
                "keyfile": str(files.key),
                # Asked for with each connection, so a renewed certificate needs no new start.
                "ssl_context": lambda _config, _default: make_context(files),
            }
        for name, value in options.items():
            if name in self.cfg.settings:  # older versions have no control socket
                self.cfg.set(name, value)

    def load(self) -> Flask:
        """Called in the serving process: threads do not survive a fork."""
        head = create_head(self._settings)
        _offer_setup(head)
        start_duties(head)
        return create_app(head)


def make_context(files: tls.Files) -> HeadContext:
    context = HeadContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*files)
    return context


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
    images.check(settings.image, settings)
    check_place(settings.bind)
    _introduce(settings)
    try:
        HeadApplication(settings).run()
    finally:
        del held  # it must live until here


def check_place(bind: str) -> None:
    """Raise a Problem if nobody can listen there; gunicorn would try for a while, and say it at length."""
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
            "bad_bind", f"this head cannot listen on {bind}: {why}", "--bind names another place"
        ) from error


def _introduce(settings: Settings) -> None:
    """Tell the console how this head is reached and known; a wrong setting raises a Problem."""
    log.info("this head is %s", tls.find_url(settings))
    if pin := tls.get_pin(settings):
        log.info("its certificate is %s", pin)
    elif not tls.is_on_loopback(settings):
        log.warning(
            "tls is off: only a proxy with TLS may reach %s, for tokens pass it plainly", settings.bind
        )


def _offer_setup(head: Head) -> None:
    """While there is nobody, tell whoever reads this console how to become the first admin."""
    with head.database.write() as session:
        code = registration.make_setup_code(session)
    if code:
        log.info(
            "there is no user yet: `pit connect` and the setup code %s make the first one, an admin", code
        )
