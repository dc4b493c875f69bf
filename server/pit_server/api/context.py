"""What a request finds around it: the head, and how to wait for news without polling."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from flask import current_app, g, request

from pit_protocol.problem import Problem
from pit_server.head import Head
from pit_server.services.inputs import parse_number

T = TypeVar("T")
MAX_WAIT_S = 10.0  # also how long a token that ended may still be followed by silence


def head() -> Head:
    found: Head = current_app.extensions["pit"]
    return found


def number_argument(name: str, default: float) -> float:
    """A number from the query string."""
    text = request.args.get(name)
    return default if text is None else parse_number(name, text)


def json_body() -> Any:
    """The request's JSON; nested deeper than Python can read, it is refused like any other that is none."""
    try:
        return request.get_json()
    except RecursionError:
        raise Problem("bad_json", "the body is nested too deep", status=422) from None


def address() -> str:
    """Where the request comes from."""
    return request.remote_addr or ""


def given_properties() -> Any:
    """What `{"set": {…}}` holds."""
    body = json_body()
    return body.get("set", {}) if isinstance(body, dict) else body


def wait_argument() -> float:
    return min(number_argument("wait_s", 0.0), MAX_WAIT_S)


def hold(bell: str, wait_s: float, look: Callable[[], tuple[T, bool]]) -> T:
    """Look until there is news or the time is over; between the looks, sleep until the bell rings."""
    deadline = time.monotonic() + wait_s
    bells = head().bells
    with bells.listen(bell) as ear:
        while True:
            ear.clear()
            answer, is_news = look()
            left = deadline - time.monotonic()
            if is_news or left <= 0 or bells.is_closed:
                return answer
            ear.wait(left)
            g.readmit()
