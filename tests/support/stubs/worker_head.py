"""A head for the worker's tests: real HTTP, no database; it records reports and gives a test's orders."""

import json
import ssl
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec.structs import replace

from pit_protocol import PROTOCOL
from pit_protocol.messages.beat import (
    STALE_EPOCH,
    UNKNOWN_SESSION,
    Beat,
    Hello,
    Order,
    OrderAction,
    Orders,
    ProcessSpec,
    Report,
    Welcome,
    unpack_beat,
)
from pit_protocol.states import KilledBy, ProcessState
from pit_protocol.version_check import HEADER
from pit_protocol.wire import from_json, to_json
from tests.support.servers.certificate_files import Certificate

Key = tuple[int, int]
REFUSALS = {
    STALE_EPOCH: "another worker has taken over node n0",
    UNKNOWN_SESSION: "the head does not know this session",
}


class StubHead:
    def __init__(
        self, data_root: str, *, hold_s: float = 2.0, certificate: Certificate | None = None
    ) -> None:
        self.data_root = data_root
        self.hold_s = hold_s
        # Different in each test run: what a run leaves behind is found by it.
        self.cluster = f"test{uuid.uuid4().hex[:8]}"
        self.token = "pit_n1_secret"
        self.join_codes = {"pit_j1_code"}  # each is good for one node
        self.on_join: Callable[[], None] = lambda: None  # called while a worker waits for the answer
        self.epoch = 0
        self.revision = 1
        self.hellos: list[Hello] = []
        self.spoken: list[Beat] = []
        self.orders: dict[Key, Order] = {}
        self.reports: dict[Key, Report] = {}
        self.ends: dict[Key, Report] = {}
        self.logs: dict[Key, bytearray] = {}  # without what was dropped
        self.log_sizes: dict[Key, int] = {}  # with it
        self.refused = 0
        self.protocol = str(PROTOCOL)
        self.is_deaf = False  # answers 503
        self.forgets = True
        self.drops_chunks = 0  # so many chunks are lost on the way
        self.answers: list[Orders] = []  # given instead of the true ones, once each
        self.changed = threading.Condition()
        self._first = 0  # the number before the first process of this test
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.file, certificate.key_file)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.port = self._server.server_address[1]
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"

    def close(self) -> None:
        with self.changed:
            self.hold_s = 0
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def key(self, process: int, attempt: int = 1) -> Key:
        """How the worker knows this test's process: tests count from 1, and a worker starts none twice."""
        return self._first + process, attempt

    def stop_all(self) -> None:
        with self.changed:
            for key in {*self.orders, *self.reports} - {*self.ends}:
                self.orders[key] = Order(*key, OrderAction.STOP, killed_by=KilledBy.USER)
            self.revision += 1
            self.changed.notify_all()

    def begin_next_test(self) -> None:
        """Forget all that a test left here; its processes have ended."""
        with self.changed:
            self._first += 1000
            for left in (self.spoken, self.orders, self.reports, self.ends, self.logs):
                left.clear()

    def order(self, *orders: Order) -> None:
        with self.changed:
            for order in orders:
                process, attempt = key = self.key(order.process, order.attempt)
                self.orders[key] = replace(order, process=process, attempt=attempt)
            self.revision += 1
            self.changed.notify_all()

    def run(self, process: int, command: str | None, attempt: int = 1, **spec: Any) -> None:
        self.order(Order(process, attempt, OrderAction.RUN, spec=a_spec(command, **spec)))

    def stop(self, process: int, attempt: int = 1, killed_by: KilledBy = KilledBy.USER) -> None:
        self.order(Order(process, attempt, OrderAction.STOP, killed_by=killed_by))

    def log(self, process: int, attempt: int = 1) -> str:
        return bytes(self.logs.get(self.key(process, attempt), b"")).decode()

    def state(self, process: int, attempt: int = 1) -> ProcessState | None:
        report = self.reports.get(self.key(process, attempt))
        return report.state if report else None

    def end(self, process: int, attempt: int = 1) -> Report | None:
        return self.ends.get(self.key(process, attempt))

    def greet(self, hello: Hello) -> Welcome:
        with self.changed:
            self.hellos.append(hello)
            self.epoch = max(self.epoch, hello.epoch) + 1
            self.changed.notify_all()
            return Welcome("n1", self.epoch, self.cluster, self.data_root, self.hold_s)

    def go_back(self) -> None:
        """Know no session and no order, as after the restore of a backup."""
        with self.changed:
            self.epoch = self.revision = 0
            self.orders.clear()
            self.changed.notify_all()

    def take(self, beat: Beat, chunks: list[bytes]) -> Orders | str:
        """The answer to a beat; the code of a refusal for one of another session."""
        with self.changed:
            if beat.epoch > self.epoch or beat.seen > self.revision:
                return UNKNOWN_SESSION
            if beat.epoch != self.epoch:
                return STALE_EPOCH
            if beat.wait_s == 0:
                self.spoken.append(beat)
            self._append(beat, chunks)
            for report in beat.reports:
                self._note(report)
            if beat.wait_s:
                self.changed.wait_for(
                    lambda: self.revision > beat.seen or beat.epoch != self.epoch, self.hold_s
                )
            if self.answers and not beat.wait_s:
                return self.answers.pop(0)
            return Orders(self.revision, tuple(map(self._with_size, self.orders.values())))

    def _append(self, beat: Beat, chunks: list[bytes]) -> None:
        for chunk, data in zip(beat.chunks, chunks, strict=True):
            key = (chunk.process, chunk.attempt)
            size = self.log_sizes.get(key, 0)
            if self.drops_chunks:
                self.drops_chunks -= 1
            elif chunk.offset - chunk.gap <= size:
                self.logs.setdefault(key, bytearray()).extend(data[max(size - chunk.offset, 0) :])
                self.log_sizes[key] = max(size, chunk.offset + chunk.length)

    def _note(self, report: Report) -> None:
        key = (report.process, report.attempt)
        self.reports[key] = report
        if report.state is not ProcessState.ENDED or self.log_sizes.get(key, 0) != report.log_size:
            return
        self.ends.setdefault(key, report)
        if self.forgets:
            self.orders[key] = Order(*key, OrderAction.FORGET)

    def _with_size(self, order: Order) -> Order:
        key = (order.process, order.attempt)
        known = key in self.reports or order.action is not OrderAction.RUN
        return Order(
            *key,
            order.action,
            self.log_sizes.get(key, 0),
            order.killed_by,
            None if known else order.spec,
            order.time,
            order.ran_s,
        )


def a_spec(command: str | None, *, grace_s: float = 5.0, hostfile: str = "", **env: str) -> ProcessSpec:
    paths = {
        "JOB_DIR": "jobs/1",
        "SRC_DIR": "jobs/1/src",
        "KEEP_DIR": "jobs/1/keep",
        "RESULT_FILE": "jobs/1/result",
        "USER_DIR": "home/ann",
        "SHARED_DIR": "shared",
    }
    return ProcessSpec(1, 0, 0, 0, command, env, paths, hostfile, grace_s)


def _handler(head: StubHead) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if head.is_deaf:
                self._answer(503, {"code": "down", "message": "down"})
            elif self.path == "/api/v1/node/join":
                self._join()
            elif self.headers["Authorization"] != f"Bearer {head.token}":
                head.refused += 1
                self._answer(401, {"code": "bad_token", "message": "this token is not known"})
            elif self.path == "/api/v1/node/session":
                self._answer(200, to_json(head.greet(from_json(Hello, json.loads(body)))))
            else:
                orders = head.take(*unpack_beat(body))
                if isinstance(orders, str):
                    self._answer(409, {"code": orders, "message": REFUSALS[orders]})
                else:
                    self._answer(200, to_json(orders))

        def _join(self) -> None:
            code = self.headers["Authorization"].removeprefix("Bearer ")
            if code not in head.join_codes:
                self._answer(401, {"code": "bad_token", "message": "this token is not known"})
                return
            head.on_join()
            head.join_codes.remove(code)
            self._answer(201, {"node": "n1", "cluster": head.cluster, "token": head.token})

        def _answer(self, status: int, body: Any) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header(HEADER, head.protocol)
            self.end_headers()
            try:
                self.wfile.write(text)
            except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                self.close_connection = True

        def handle(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
                super().handle()

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
