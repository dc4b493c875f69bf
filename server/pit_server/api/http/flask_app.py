"""A Flask application whose views may return messages and answers of the protocol."""

from collections.abc import Callable
from functools import cache
from typing import Any

from flask import Flask, Response
from msgspec import Struct
from werkzeug.routing import Rule

from pit_protocol.wire import encode


class LazyRule(Rule):
    """A route whose URL builder is compiled at its first use: all of them take longer than the rest."""

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        @cache
        def builder() -> Callable[..., tuple[str, str]]:
            return Rule._compile_builder(self, append_unknown)

        return lambda rule, **values: builder()(rule, **values)


class Application(Flask):
    """Encodes what a view returns as JSON if it is a Struct, or a Struct and a status."""

    url_rule_class = LazyRule

    def make_response(self, rv: Any) -> Response:
        body, status = rv if isinstance(rv, tuple) and len(rv) == 2 else (rv, 200)
        if isinstance(body, Struct):
            return Response(encode(body), status, mimetype="application/json")
        return super().make_response(rv)
