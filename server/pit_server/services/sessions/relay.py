"""Passing the messages of a session from client to worker and back, without looking at them.

One side is read only while the other one takes what is sent, so nothing piles up here.
"""

import select
from collections.abc import Callable
from typing import TypeVar

from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import failed, to_text
from pit_protocol.sessions.websocket import PING_S, Closed, WebSocket
from pit_server.services.sessions.wake import PollableEvent

MOST_BUFFERED = 512 * 1024
T = TypeVar("T")
FAREWELL_S = 2.0  # to send the last words


class _SideClosed(Exception):
    def __init__(self, side: WebSocket, closed: Closed) -> None:
        super().__init__(str(closed))
        self.side, self.is_clean = side, closed.is_clean


def relay(
    client: WebSocket, worker: WebSocket, wake: PollableEvent, check: Callable[[], None], node: str
) -> None:
    """Relay until one side closes, or until `check` raises a Problem, which is called when `wake` is set."""
    pairs = ((client, worker), (worker, client))
    try:
        check()
        while True:
            _turn(pairs, wake, check)
    except _SideClosed as closed:
        if closed.side is worker and not closed.is_clean:
            raise Problem(
                "session_lost",
                f"the connection to node {node} broke off; the job is not affected",
                "try again in a moment",
                status=503,
            ) from closed
    finally:
        worker.close()
        worker.drain(FAREWELL_S)


def end(websocket: WebSocket, problem: Problem | None = None) -> None:
    """Close one side, with a last sentence."""
    try:
        if problem:
            websocket.send(to_text(failed(problem)))
        websocket.close()
    except Closed:
        return
    websocket.drain(FAREWELL_S)


def _turn(
    pairs: tuple[tuple[WebSocket, WebSocket], ...], wake: PollableEvent, check: Callable[[], None]
) -> None:
    poll = select.poll()
    poll.register(wake.fileno(), select.POLLIN)
    for one, other in pairs:
        is_read = other.buffered < MOST_BUFFERED
        if not is_read:
            one.excuse_silence()
        poll.register(
            one.fileno(), (select.POLLIN if is_read else 0) | (select.POLLOUT if one.buffered else 0)
        )
    has_more = any(one.has_more() and other.buffered < MOST_BUFFERED for one, other in pairs)
    ready = dict(poll.poll(0 if has_more else PING_S * 500))
    if wake.fileno() in ready:
        wake.clear()
        check()
    for one, other in pairs:
        events = ready.get(one.fileno(), 0)
        for message in _receive(one, events, is_read=other.buffered < MOST_BUFFERED):
            _call(other, lambda message=message, other=other: other.send(message))  # type: ignore[misc]


def _receive(one: WebSocket, events: int, *, is_read: bool) -> list[str | bytes]:
    """Do what can be done with one side now; returns the messages that have arrived."""
    if events & select.POLLOUT:
        _call(one, one.flush)
    if not events:
        _call(one, one.check_alive)
    if is_read and (events & ~select.POLLOUT or one.has_more()):
        return _call(one, one.receive)
    return []


def _call(side: WebSocket, call: Callable[[], T]) -> T:
    try:
        return call()
    except Closed as closed:
        raise _SideClosed(side, closed) from closed
