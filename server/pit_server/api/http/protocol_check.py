"""The protocol version of requests and answers, checked before a token is looked at."""

from flask import Response, request

from pit_protocol import API_PREFIX
from pit_protocol.version_check import HEADER, HEADERS, check_protocol

OF_WORKERS = f"{API_PREFIX}/node/"


def check_request() -> None:
    """Raise a Problem for a client or a worker of another protocol; a script need not name one."""
    told = request.headers.get(HEADER)
    is_worker = request.path.startswith(OF_WORKERS)
    if told is not None or is_worker:
        check_protocol(told, "worker" if is_worker else "client", "head")


def mark_answer(response: Response) -> Response:
    response.headers.update(HEADERS)
    return response
