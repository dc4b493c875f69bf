"""Server-sent events: the page learns that something has changed, and loads it."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Blueprint, Response, g, request, stream_with_context

from pit_protocol.problem import Problem
from pit_server import cancellation
from pit_server.api.http.context import head, job_argument, number_argument
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.jobs import jobs
from pit_server.traffic import Traffic
from pit_server.wakeups import STATUS, job_topic
from pit_server.web.rendering import HEADERS

blueprint = Blueprint("web_events", __name__)
MAX_S = 600.0  # then the browser opens another one
BEAT_S = 5.0  # how soon it is noticed that a client is gone, or a token revoked
PAUSE_S = 1.0  # between two events of a stream, however much changes
LOADS_PER_S = 10.0  # of all open pages together: each event makes a page load itself again


class _OpenStreams:
    """Counts open streams, and spreads what they tell over time so that pages do not load all at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        with self._lock:
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1

    def delay_s(self) -> float:
        """For how long to keep a change back; nothing if there is one page alone."""
        return random.uniform(0.0, (self._count - 1) / LOADS_PER_S)  # noqa: S311 - no secret

    def pause_s(self) -> float:
        """How long to be quiet after an event."""
        return max(PAUSE_S, self._count / LOADS_PER_S)


_streams = _OpenStreams()


@blueprint.get("/events")
@allow(Role.USER, traffic=Traffic.HELD)
def show() -> Response:
    """One event per change of all jobs, or of one with `job`."""
    topic = STATUS
    if "job" in request.args:
        number = job_argument("job")
        with head().database.read() as session:
            jobs.find(session, caller(), number)
        topic = job_topic(number)
    until = time.monotonic() + min(number_argument("wait_s", 0.0), MAX_S)
    headers = {**HEADERS, "X-Accel-Buffering": "no"}
    return Response(stream_with_context(_stream(topic, until)), mimetype="text/event-stream", headers=headers)


def _stream(topic: str, until: float) -> Iterator[bytes]:
    wakeups = head().wakeups
    with _streams.one_more(), wakeups.subscribe(topic) as waiter:
        yield b"retry: 1000\nevent: open\ndata: %d\n\n" % wakeups.revision
        while time.monotonic() < until:
            is_news = waiter.wait(min(BEAT_S, max(until - time.monotonic(), 0.0)))
            if wakeups.is_closed:
                return
            waiter.clear()
            try:
                g.recheck_access()
                cancellation.check()
            except (Problem, cancellation.Cancelled):
                return
            cancellation.renew()
            if not is_news:
                yield b": beat\n\n"
                continue
            # What changes meanwhile sets the waiter, and is told with the next event.
            _sleep(_streams.delay_s(), until)
            yield b"event: change\ndata: %d\n\n" % wakeups.revision
            _sleep(_streams.pause_s(), until)
        yield b"event: end\ndata: \n\n"  # without it, the page says that the head is gone


def _sleep(seconds: float, until: float) -> None:
    time.sleep(min(seconds, max(until - time.monotonic(), 0.0)))
