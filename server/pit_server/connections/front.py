"""The head's gunicorn worker: one event loop receives requests, threads of their kind handle them.

gunicorn's own threaded worker gives each connection a thread before its request is there: a few slow
connections stop it, and held requests take the threads of short ones.
"""

import ctypes
import errno
import gc
import json
import resource
import signal
import ssl
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from gunicorn import http
from gunicorn.workers.gthread import ThreadWorker

from pit_protocol.problem import Problem
from pit_server import cancellation, log_records, metrics
from pit_server.connections.inbound import Inbound, Stage
from pit_server.connections.thread_pools import ThreadPools
from pit_server.connections.tls_contexts import TlsContexts
from pit_server.tls import Files
from pit_server.traffic import BUDGETS, Traffic

MOST_CONNECTIONS = 10_000  # beyond that, the one that has been idle for longest is closed
DESCRIPTORS_LEFT = 1000  # for files and the database
ACCEPTS_PER_TURN = 64  # of the loop
SWEEP_S = 0.2  # between two looks at all deadlines
DRAIN_S = 0.2  # for the rest of a body that nobody read
CLIENT_GONE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF, errno.ETIMEDOUT)
PR_SET_PDEATHSIG = 1
RETRY_AFTER_S = 2
UNRESTRICTED = 1_000_000_000
# A short request gives up Python's lock at each query, and waits this long for each busy thread after that.
SWITCH_S = 0.001
# A full collection looks at what all held requests have, and stops all threads meanwhile: 0.3 s for 1,500 of
# them, every 12 s by Python's own thresholds. There is little to find: few requests leave cycles behind.
COLLECTIONS = (2000, 20, 50)  # two million objects more, at the latest
TOO_SLOW_HINT = "ask for less, or ask an admin to raise `request_timeout_s`"

BUSY = Problem(
    "busy", "the head has too many requests of this kind", f"try again in {RETRY_AFTER_S} s", status=503
)
TOO_LARGE = Problem("head_too_large", "the headers of the request are too large", status=431)
BAD_HTTP = Problem("bad_http", "the request is not valid HTTP", status=400)
BROKEN = Problem("internal_error", "internal error", "the head's log has the details", status=500)
PHRASES = {
    400: "Bad Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def _raw(problem: Problem) -> bytes:
    body = json.dumps(problem.to_json()).encode() + b"\n"
    head = (
        f"HTTP/1.1 {problem.status} {PHRASES[problem.status]}\r\nContent-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: {RETRY_AFTER_S}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"this head speaks TLS: use https\n"
)
BUSY_ANSWER, TOO_LARGE_ANSWER = _raw(BUSY), _raw(TOO_LARGE)


class HeadWorker(ThreadWorker):  # type: ignore[misc]
    """Exits at once: long polls would delay it, and an orphaned process would keep port and database."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # gunicorn would stop accepting; `_make_room` closes idle connections instead.
        self.worker_connections = self.max_keepalived = UNRESTRICTED
        self._waiting: dict[Inbound, None] = {}  # in the poller, oldest first
        self._contexts: TlsContexts | None = None
        self._next_sweep = 0.0  # by the monotonic clock

    def init_process(self) -> None:
        _die_with_parent()
        sys.setswitchinterval(SWITCH_S)
        if self.cfg.is_ssl:
            self._contexts = TlsContexts(Files(Path(self.cfg.certfile), Path(self.cfg.keyfile)))
        metrics.CONNECTIONS.set_function(lambda: self.nr_conns)
        super().init_process()

    def load_wsgi(self) -> None:
        super().load_wsgi()
        # What is there now stays. Without this, each full collection looks at all of it, and stops all
        # threads for about as long as the slowest of a hundred requests took.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECTIONS)

    def get_thread_pool(self) -> ThreadPools:
        short = replace(BUDGETS[Traffic.SHORT], threads=self.cfg.threads)
        return ThreadPools({**BUDGETS, Traffic.SHORT: short})

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.wsgi.extensions["pit"].wakeups.close()
        super().handle_exit(sig, frame)

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C ends the head as SIGTERM does: held requests would outlive gunicorn's own way."""
        self.handle_exit(sig, frame)

    def accept(self, listener: Any) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, client = listener.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._close_oldest()
                return
            if not self._make_room():
                sock.close()
                return
            self.nr_conns += 1
            context = self._contexts.current() if self._contexts else None
            conn = Inbound(sock, client, listener.getsockname(), context, time.monotonic())
            self._wait(conn)

    def handle(self, conn: Inbound) -> bool:
        """Handle the request that has arrived; runs in a thread."""
        request = None
        try:
            request = next(conn.parser)
            return bool(request) and self._answer(request, conn) and self._is_drained(conn)
        except (http.errors.NoMoreData, StopIteration, TimeoutError, ssl.SSLError) as error:
            self.log.debug("a client went away: %s", error)
        except OSError as error:
            if error.errno not in CLIENT_GONE:
                self.log.exception("a connection broke")
        except Exception as error:
            self.handle_error(request, conn.sock, conn.client, error)
        return False

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:  # noqa: ARG002
        """Answer what the application has not seen; gunicorn would send a page, and log what it was sent."""
        is_bad = isinstance(exc, http.errors.ParseException)
        if is_bad:
            self.log.warning(
                "a request from %s is not valid HTTP: %s", addr[0] if addr else "", type(exc).__name__
            )
        else:
            self.log.error("a request failed outside of the application", exc_info=exc)
        with suppress(OSError):
            client.sendall(_raw(BAD_HTTP if is_bad else BROKEN))

    def finish_request(self, conn: Inbound, future: "Future[bool]") -> None:
        """The thread is done; runs in the event loop."""
        is_kept = not future.cancelled() and future.exception() is None and future.result()
        now = time.monotonic()
        if is_kept and self.alive:
            conn.take_back(now)
        else:
            conn.linger(now)
        self._wait(conn)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close connections whose deadline has passed; it looks at all, so not in each turn of the loop."""
        now = time.monotonic()
        if now < self._next_sweep and not force:
            return
        self._next_sweep = now + SWEEP_S
        for conn in [conn for conn in self._waiting if force or conn.deadline < now]:
            self._close(conn)

    def murder_pending(self) -> None:
        """There are none: `murder_keepalived` has all that wait."""

    def _cap_keepalive(self, deadline: float) -> None:
        for conn in self._waiting:
            conn.deadline = min(conn.deadline, deadline)

    def _answer(self, request: Any, conn: Inbound) -> bool:
        most_s = self.wsgi.extensions["pit"].settings.request_timeout_s
        log_records.begin_request()
        request.pit_answer = metrics.Answer(conn.traffic, time.perf_counter())  # for `note_answer`
        with cancellation.limited(most_s, partial(cancellation.is_open, conn.sock), hint=TOO_SLOW_HINT):
            return bool(self.handle_request(request, conn))

    def _is_drained(self, conn: Inbound) -> bool:
        """Read what nobody read of the body; False closes the connection."""
        # What is here already takes no time. A deadline would close connections of a thread that waited
        # for Python's lock for longer, while the client sends its next request.
        return bool(conn.parser.finish_body(None if conn.is_whole else time.monotonic() + DRAIN_S))

    def _wait(self, conn: Inbound) -> None:
        """Take what is there already, then leave the connection to the poller."""
        self._waiting[conn] = None
        try:
            self.poller.register(conn.sock, conn.events, partial(self._on_ready, conn))
        except (OSError, ValueError, KeyError):
            self._forget(conn)
            return
        self._on_ready(conn)

    def _on_ready(self, conn: Inbound, _sock: Any = None) -> None:
        if conn not in self._waiting:
            return  # closed in the same turn of the loop
        before = conn.events
        stage = conn.advance(time.monotonic())
        if stage is Stage.COMPLETE:
            self._dispatch(conn)
        elif stage is Stage.PLAIN:
            self._refuse(conn, PLAIN_ANSWER)
        elif stage is Stage.TOO_LARGE:
            self._refuse(conn, TOO_LARGE_ANSWER)
        elif stage is Stage.GONE:
            self._close(conn)
        elif conn.events != before:
            self.poller.modify(conn.sock, conn.events, partial(self._on_ready, conn))

    def _dispatch(self, conn: Inbound) -> None:
        traffic = self._classify(*conn.target)
        self.poller.unregister(conn.sock)
        del self._waiting[conn]
        conn.hand_over(partial(http.get_parser, self.cfg, conn.sock, conn.client))
        conn.traffic = traffic
        future = self.tpool.submit(traffic, self.handle, conn)
        if future is None:
            with suppress(OSError):
                conn.sock.setblocking(False)
                conn.sock.send(BUSY_ANSWER)
            conn.linger(time.monotonic())
            self._wait(conn)
            return
        future.add_done_callback(partial(self.method_queue.defer, self.finish_request, conn))

    def _classify(self, method: str, path: str) -> Traffic:
        classify: Callable[[str, str], Traffic] = self.wsgi.extensions["pit_traffic"]
        return classify(method, path)

    def _refuse(self, conn: Inbound, answer: bytes) -> None:
        with suppress(OSError):
            conn.sock.send(answer)
        conn.linger(time.monotonic())

    def _make_room(self) -> bool:
        limit = min(MOST_CONNECTIONS, _descriptor_limit() - DESCRIPTORS_LEFT)
        return self.nr_conns < limit or self._close_oldest()

    def _close_oldest(self) -> bool:
        oldest = next(iter(self._waiting), None)
        if oldest is not None:
            self._close(oldest)
        return oldest is not None

    def _close(self, conn: Inbound) -> None:
        with suppress(OSError, ValueError, KeyError):
            self.poller.unregister(conn.sock)
        self._forget(conn)

    def _forget(self, conn: Inbound) -> None:
        self._waiting.pop(conn, None)
        self.nr_conns -= 1
        conn.close()


def _descriptor_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent, gunicorn's arbiter, dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
