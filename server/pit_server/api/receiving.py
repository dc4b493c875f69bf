"""What comes with a request, as it comes."""

import logging
from collections.abc import Callable

from flask import request

from pit_protocol.problem import Problem
from pit_server.api.policy import caller
from pit_server.api.sending import set_patience

log = logging.getLogger(__name__)


class Body:
    """The body of the request, past the framework, which would bound it; a broken one is a Problem."""

    def __init__(self, take: Callable[[int], None] = lambda _: None) -> None:
        """`take` counts what comes, and refuses what is too much."""
        set_patience()
        self._body, self._take = request.environ["wsgi.input"], take
        self._size = 0

    def read(self, size: int) -> bytes:
        try:
            data: bytes = self._body.read(size)
        except TimeoutError:
            raise self._broken("stalled", "nothing more came for a while", 408) from None
        except OSError:
            raise self._broken("broken_off", "its sender hung up", 400) from None
        self._size += len(data)
        self._take(len(data))
        return data

    def _broken(self, code: str, why: str, status: int) -> Problem:
        what = request.path.encode(errors="backslashreplace").decode()
        log.info("%s by %s: %s, after %d bytes", what, caller().name, why, self._size)
        return Problem(code, f"{why}, after {self._size:,} bytes", "go on", status=status)
