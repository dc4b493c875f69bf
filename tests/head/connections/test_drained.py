"""Whether a connection stays open after its request, however long the thread waited for its turn."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from gunicorn import http
from gunicorn.config import Config

from pit_server.connections import front
from pit_server.connections.front import HeadWorker
from pit_server.connections.inbound import SMALL_BODY, Inbound, Stage

HEAD = b"POST /api/v1/node/beat HTTP/1.1\r\nHost: localhost\r\n"


@contextmanager
def received(sent: bytes) -> Iterator[Inbound]:
    """The connection when a thread has got its request, and read nothing of the body."""
    ours, theirs = socket.socketpair()
    conn = Inbound(ours, ("127.0.0.1", 1), ("127.0.0.1", 2), None, 0.0)
    theirs.sendall(sent)
    assert conn.advance(0.0) is Stage.COMPLETE
    conn.hand_over(lambda: http.get_parser(Config(), conn.sock, conn.client))
    next(conn.parser)
    yield conn
    conn.close()
    theirs.close()


def is_drained(conn: Inbound) -> bool:
    return HeadWorker._is_drained(HeadWorker.__new__(HeadWorker), conn)


@pytest.mark.parametrize("body", [b"", b"x" * 1000], ids=["no body", "unread body"])
def test_a_request_that_arrived_whole_keeps_its_connection_after_a_stall(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(front, "DRAIN_S", -1.0)  # it was over before the thread could begin
    with received(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body) as conn:
        assert is_drained(conn)


@pytest.mark.parametrize(
    "rest",
    [
        f"Content-Length: {SMALL_BODY + 1}\r\n\r\nx".encode(),
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nx",
        b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    ],
    ids=["large", "chunked", "expected"],
)
def test_a_body_that_is_not_there_yet_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, rest: bytes) -> None:
    monkeypatch.setattr(front, "DRAIN_S", 0.05)
    with received(HEAD + rest) as conn:
        assert not is_drained(conn)
