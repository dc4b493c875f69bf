"""Reading a request's body as a stream."""

import logging
from collections.abc import Callable

from flask import request

from pit_protocol.problem import Problem
from pit_server.api.http.file_response import set_stall_timeout
from pit_server.api.http.guard import caller

log = logging.getLogger(__name__)


class Body:
    """The request's body, read past Flask's size limit; a broken connection raises a Problem."""

    def __init__(self, take: Callable[[int], None] = lambda _: None) -> None:
        """`take` counts the bytes and raises a Problem when they are too many."""
        set_stall_timeout()
        self._body, self._take = request.environ["wsgi.input"], take
        self._size = 0

    def read(self, size: int) -> bytes:
        try:
            data: bytes = self._body.read(size)
        except TimeoutError:
            raise self._broken("stalled", "the client sent nothing for a while", 408) from None
        except OSError:
            raise self._broken("broken_off", "the client closed the connection", 400) from None
        self._size += len(data)
        self._take(len(data))
        return data

    def _broken(self, code: str, why: str, status: int) -> Problem:
        what = request.path.encode(errors="backslashreplace").decode()
        log.info("%s by %s: %s, after %d bytes", what, caller().name, why, self._size)
        return Problem(code, f"{why}, after {self._size:,} bytes", "resume the upload", status=status)
