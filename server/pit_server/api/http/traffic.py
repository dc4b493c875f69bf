"""Which kind of traffic a request is, known from its first line: each view declares it."""

from collections.abc import Callable
from urllib.parse import unquote

from flask import Flask
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from pit_server.traffic import Traffic, find_kind


def make_classifier(app: Flask, files: str) -> Callable[[str, str], Traffic]:
    """`files` is the path of the application that serves files beside Flask."""
    routes = app.url_map.bind("")

    def classify(method: str, target: str) -> Traffic:
        path, _, query = target.partition("?")
        if path == files or path.startswith(f"{files}/"):
            return Traffic.TRANSFER
        try:
            endpoint, _ = routes.match(unquote(path), method=method)
        except (HTTPException, RequestRedirect, ValueError):
            return Traffic.SHORT
        found: Traffic = getattr(app.view_functions[endpoint], "traffic", Traffic.SHORT)
        return find_kind(found, waits="wait_s=" in query)

    return classify
