"""A WebSocket instead of an answer: the thread of the request serves it until it ends."""

from collections.abc import Callable
from typing import Any, NoReturn

from flask import Response, request
from websockets.datastructures import Headers
from websockets.http11 import Request
from websockets.protocol import Protocol, Side
from websockets.server import ServerProtocol

from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import MAX_MESSAGE
from pit_protocol.sessions.websocket import Closed, WebSocket
from pit_protocol.version_check import HEADERS
from pit_server.services.sessions.relay import end

SOCKET = "gunicorn.socket"


def require_upgrade() -> None:
    """Raise a Problem unless the request asks for a WebSocket."""
    if request.headers.get("Upgrade", "").lower() != "websocket" or SOCKET not in request.environ:
        raise Problem(
            "needs_websocket", "this route is a WebSocket", "`pit exec` and `pit forward` use it", status=426
        )


class Upgrade(Response):
    """Calls `serve` with the open WebSocket; a Problem that it raises is the client's last message."""

    def __init__(self, serve: Callable[[WebSocket], None]) -> None:
        super().__init__(status=101)
        self._serve = serve

    def __call__(self, environ: dict[str, Any], start_response: Any) -> NoReturn:  # noqa: ARG002
        answer = ServerProtocol().accept(_request(environ))
        for name, value in HEADERS.items():
            answer.headers[name] = value
        environ[SOCKET].sendall(answer.serialize())
        if answer.status_code != self.status_code:
            raise StopIteration
        # gunicorn has read the request, so what follows are frames.
        websocket = WebSocket(environ[SOCKET], Protocol(Side.SERVER, max_size=MAX_MESSAGE))
        problem = None
        try:
            self._serve(websocket)
        except Closed:
            pass  # there is nobody to tell
        except Problem as found:
            problem = found
        finally:
            end(websocket, problem)
        raise StopIteration  # how gunicorn is told that the connection is used up


def _request(environ: dict[str, Any]) -> Request:
    headers = Headers()
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            headers[name.removeprefix("HTTP_").replace("_", "-").title()] = value
    return Request(environ.get("PATH_INFO", "/"), headers)
