"""A Flask application whose views may return messages and answers of the protocol."""

from typing import Any

from flask import Flask, Response
from msgspec import Struct

from pit_protocol.wire import encode


class Application(Flask):
    """Encodes what a view returns as JSON if it is a Struct, or a Struct and a status."""

    def make_response(self, rv: Any) -> Response:
        body, status = rv if isinstance(rv, tuple) and len(rv) == 2 else (rv, 200)
        if isinstance(body, Struct):
            return Response(encode(body), status, mimetype="application/json")
        return super().make_response(rv)
