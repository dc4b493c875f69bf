"""Server-sent events: told of changes, and of nothing else."""

from collections.abc import Callable

from flask import Flask

from pit_protocol.version_check import HEADERS
from pit_server.wakeups import STATUS
from tests.support.clusters.head import ONE_DATABASE, Person

pytestmark = ONE_DATABASE


def test_a_page_is_told_of_a_change_and_of_a_revoked_token(
    app: Flask, anna: Person, root: Person, in_thread: Callable[..., Callable[[], object]]
) -> None:
    wakeups = app.extensions["pit"].wakeups
    headers = {"Authorization": f"Bearer {anna.token}", **HEADERS}
    answer = app.test_client().get("/events?wait_s=60", headers=headers)
    assert answer.mimetype == "text/event-stream"
    pieces = iter(answer.response)
    assert b"event: open" in next(pieces)
    wakeups.notify([STATUS])
    assert b"event: change" in next(pieces)
    root.ok(root.patch("/users/anna", active="no"))
    wakeups.notify([STATUS])
    assert list(pieces) == []
    answer.close()


def test_a_page_is_told_that_its_time_is_over(app: Flask, anna: Person) -> None:
    headers = {"Authorization": f"Bearer {anna.token}", **HEADERS}
    answer = app.test_client().get("/events?wait_s=0", headers=headers, buffered=True)
    assert answer.data.endswith(b"event: end\ndata: \n\n")
