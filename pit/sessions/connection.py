"""Opening a session: a WebSocket to the head, whose failures are Problems."""

from urllib.parse import urlencode

from pit.connect.connection import Connection
from pit.head.http_session import Unreachable
from pit_protocol import API_PREFIX
from pit_protocol.arrays.numbers import job_name
from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import Failed
from pit_protocol.sessions.handshake import connect
from pit_protocol.sessions.websocket import WebSocket
from pit_protocol.transport.tls import explain, make_context

HEAD_GONE = Unreachable(
    "head_gone", "the connection to the head broke off; the job is not affected", "try again in a moment"
)


def open_session(connection: Connection, kind: str, number: int, process: str | None) -> WebSocket:
    """A WebSocket to the first process of a job, or to the named one; raises a Problem."""
    context = make_context(connection.certificates) if connection.url.startswith("https:") else None
    query = f"?{urlencode({'process': process})}" if process else ""
    url = f"{connection.url}{API_PREFIX}/jobs/{job_name(number)}/{kind}{query}"
    try:
        return connect(url, connection.token or "", context)
    except OSError as error:
        raise Unreachable(
            "unreachable",
            f"no answer from the head at {connection.url}: {explain(error)}",
            "check the address, and whether the head runs",
        ) from error


def to_problem(control: Failed) -> Problem:
    return Problem(control.code, control.message, control.hint)
