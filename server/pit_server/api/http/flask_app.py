"""A Flask application whose views may return messages and answers of the protocol."""

from collections.abc import Callable
from functools import cache
from typing import Any

from flask import Flask, Request, Response
from msgspec import Struct
from werkzeug.routing import BaseConverter, MapAdapter, Rule, ValidationError

from pit_protocol.arrays.numbers import job_name, parse_job_name
from pit_protocol.wire import encode


class LazyRule(Rule):
    """A route whose URL builder is compiled at its first use: all of them take longer than the rest."""

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        @cache
        def builder() -> Callable[..., tuple[str, str]]:
            return Rule._compile_builder(self, append_unknown)

        return lambda rule, **values: builder()(rule, **values)


class JobConverter(BaseConverter):
    """A job in a path: `190`, or `190.7` for an element of an array."""

    regex = r"[0-9]+(?:\.[0-9]+)?"

    def to_python(self, value: str) -> int:
        number = parse_job_name(value)
        if number is None and "." in value:
            raise ValidationError
        return int(value) if number is None else number

    def to_url(self, value: int) -> str:
        return job_name(value)


class Application(Flask):
    """Encodes what a view returns as JSON if it is a Struct, or a Struct and a status."""

    url_rule_class = LazyRule

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.url_map.converters["job"] = JobConverter

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """A request for a WebSocket finds its view like others: the view says that it wants one."""
        adapter = super().create_url_adapter(request)
        if adapter is not None:
            adapter.websocket = False
        return adapter

    def make_response(self, rv: Any) -> Response:
        body, status = rv if isinstance(rv, tuple) and len(rv) == 2 else (rv, 200)
        if isinstance(body, Struct):
            return Response(encode(body), status, mimetype="application/json")
        return super().make_response(rv)
