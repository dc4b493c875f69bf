"""The context of a request: the head, its arguments, and long polling."""

import time
from collections.abc import Callable
from typing import TypeVar

from flask import current_app, g, request
from werkzeug.exceptions import UnsupportedMediaType

from pit_protocol.arrays.numbers import parse_job_name
from pit_protocol.messages.request_bodies import Properties
from pit_protocol.wire import decode
from pit_server.context import Head
from pit_server.services.validation import parse_number

T = TypeVar("T")
MAX_WAIT_S = 10.0  # also bounds how long a revoked token can keep a request open


def head() -> Head:
    found: Head = current_app.extensions["pit"]
    return found


def number_argument(name: str, default: float) -> float:
    """A number from the query string."""
    text = request.args.get(name)
    return default if text is None else parse_number(name, text)


def job_argument(name: str) -> int:
    """The number of a job from the query string, also `190.7`."""
    text = request.args.get(name, "")
    number = parse_job_name(text)
    return int(parse_number(name, text)) if number is None else number


def message(kind: type[T]) -> T:
    """The request's body as a message of the protocol, checked."""
    if not request.is_json:  # a web page of another site cannot send this type unasked
        raise UnsupportedMediaType("the body must be application/json")
    return decode(kind, request.get_data())


def address() -> str:
    """The client's IP address."""
    return request.remote_addr or ""


def given_properties() -> dict[str, str]:
    """The properties in `{"set": {…}}`."""
    return message(Properties).set


def wait_argument() -> float:
    return min(number_argument("wait_s", 0.0), MAX_WAIT_S)


def long_poll(topic: str, wait_s: float, look: Callable[[], tuple[T, bool]]) -> T:
    """Call `look` until it reports news or time is up; between calls, sleep until `topic` is notified."""
    deadline = time.monotonic() + wait_s
    wakeups = head().wakeups
    with wakeups.subscribe(topic) as waiter:
        while True:
            waiter.clear()
            answer, is_news = look()
            left = deadline - time.monotonic()
            if is_news or left <= 0 or wakeups.is_closed or not waiter.wait(left):
                return answer  # nothing has happened since: most held requests end like this
            g.recheck_access()
