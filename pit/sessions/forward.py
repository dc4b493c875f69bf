"""Ports of a process on this machine: every connection to a listener is a stream of one session.

When the head or the node is lost, open connections break; new ones wait until there is a session again.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from pit.connect.connection import Connection
from pit.head.http_session import Unreachable
from pit.sessions.connection import HEAD_GONE, open_session, to_problem
from pit.sessions.listeners import Listener
from pit.ui import output
from pit_protocol.messages.beat import SessionKind
from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import (
    MAX_STREAMS,
    Failed,
    Kind,
    Start,
    Started,
    from_text,
    pack_count,
    to_text,
)
from pit_protocol.sessions.streams import StreamLoop
from pit_protocol.sessions.tcp import tcp_stream
from pit_protocol.sessions.websocket import Closed

# The worker still counts a connection whose last bytes it has not written, so there may be fewer here.
MOST_OPEN = MAX_STREAMS * 3 // 4
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 10.0
PASSING = ("head_stops", "session_lost", "node_silent")  # problems that another session may not have
PASSING_STATUS = (429, 502, 503, 504)


def forward(
    connection: Connection,
    number: int,
    process: str | None,
    listeners: Sequence[Listener],
    on_ready: Callable[[], None],
) -> None:
    """Forward until the process ends, which raises a Problem; `on_ready` is called when connections work."""
    wait_s: float | None = None  # None: all is well
    has_begun = False

    def begin() -> None:
        nonlocal has_begun, wait_s
        if not has_begun:
            on_ready()
        elif wait_s is not None:
            output.note("connected again")
        has_begun, wait_s = True, None

    while True:
        try:
            _run_session(connection, number, process, listeners, begin)
        except Problem as problem:
            if not has_begun or not _may_pass(problem):
                raise
            if wait_s is None:
                output.note(problem.message, "new connections wait until it is back")
            wait_s = min(LONGEST_WAIT_S, (wait_s or FIRST_WAIT_S / 2) * 2)
        time.sleep(wait_s or FIRST_WAIT_S)


def _may_pass(problem: Problem) -> bool:
    return isinstance(problem, Unreachable) or problem.code in PASSING or problem.status in PASSING_STATUS


def _run_session(
    connection: Connection,
    number: int,
    process: str | None,
    listeners: Sequence[Listener],
    begin: Callable[[], None],
) -> None:
    """Open a session and serve connections with it; raises a Problem when it is over."""
    websocket = open_session(connection, SessionKind.FORWARD, number, process)
    loop = StreamLoop(websocket)
    try:
        websocket.send(to_text(Start()))
        _Session(loop, listeners, begin).run()
    except Closed as closed:
        raise HEAD_GONE from closed
    finally:
        loop.close_all()
        websocket.close()
        websocket.sock.close()


class _Session:
    def __init__(self, loop: StreamLoop, listeners: Sequence[Listener], begin: Callable[[], None]) -> None:
        self._loop, self._listeners, self._begin = loop, listeners, begin
        self._has_started = False
        self._last = 0  # number of a stream
        self._ports: dict[int, int] = {}  # by stream
        loop.on_control, loop.on_turn, loop.on_reset = self._on_control, self._on_turn, self._on_reset

    def run(self) -> None:
        self._loop.run()

    def _on_control(self, text: str) -> None:
        control = from_text(text)
        if isinstance(control, Failed):
            raise to_problem(control)
        if isinstance(control, Started) and not self._has_started:
            self._has_started = True
            self._begin()

    def _on_turn(self) -> None:
        """Accept only as many connections as a session may have; the kernel holds the others."""
        self._ports = {number: port for number, port in self._ports.items() if number in self._loop.streams}
        may_accept = self._has_started and len(self._loop.streams) < MOST_OPEN
        for listener in self._listeners:
            if may_accept:
                self._loop.watch(listener.sock.fileno(), partial(self._accept, listener))
            else:
                self._loop.unwatch(listener.sock.fileno())

    def _accept(self, listener: Listener) -> None:
        with suppress(OSError):  # it has left again
            sock, _ = listener.sock.accept()
            self._last += 1
            self._ports[self._last] = listener.port
            self._loop.add(tcp_stream(self._last, sock))
            self._loop.websocket.send(pack_count(Kind.OPEN, self._last, listener.port))

    def _on_reset(self, number: int, why: str) -> None:
        stream = self._loop.streams.get(number)
        if stream and not stream.has_arrived:
            output.note(f"port {self._ports.get(number)} of the process: {why}")
