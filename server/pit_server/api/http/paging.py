"""Pages of a listing: `?limit=` and `?after=`, with the address of the next page in the header `Link`."""

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlencode

from flask import after_this_request, request
from werkzeug.wrappers import Response

from pit_protocol.problem import Problem
from pit_server.api.http.context import number_argument
from pit_server.api.http.description import LIMIT, Param

T = TypeVar("T")
PAGE = (LIMIT, Param("after", "the last one of the page before; the header `Link` has the next page"))


def page(items: list[T], key: Callable[[T], str | int]) -> list[T]:
    """The asked part of all items; all of them if no limit was asked for."""
    if (after := request.args.get("after")) is not None:
        found = next((i for i, item in enumerate(items) if str(key(item)) == after), None)
        if found is None:
            shown = after[:40]
            raise Problem("no_such_page", f"there is no {shown!r} to go on after", "begin again", status=409)
        items = items[found + 1 :]
    limit = int(number_argument("limit", 0))
    if not 0 < limit < len(items):
        return items
    query = {**request.args.to_dict(), "after": str(key(items[limit - 1]))}
    link = f'<{request.path}?{urlencode(query)}>; rel="next"'

    @after_this_request
    def add_link(response: Response) -> Response:
        response.headers["Link"] = link
        return response

    return items[:limit]
