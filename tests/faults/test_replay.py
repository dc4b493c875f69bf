"""Every request of a worker arrives again, late and in another order: nothing changes."""

from collections.abc import Callable, Iterator

import pytest
import requests
from sqlalchemy import select

from pit_server.db.database import Database
from pit_server.db.models import Allocation, Event, Job, Node, Process
from pit_server.wakeups import Wakeups
from tests.support.faults.cluster import Cluster


@pytest.mark.threat("F23", "S61")
def test_requests_that_arrive_twice_late_and_reordered_change_nothing(
    a_cluster: Callable[..., Cluster],
) -> None:
    cluster = a_cluster("n0")
    node = cluster.nodes["n0"]
    node.proxy.records = True
    cluster.start()
    ended = cluster.submit(cluster.ledger.script(code=3))
    cluster.await_end(ended)
    running = cluster.run_gated()
    before = snapshot(cluster)
    sent = [request for line in node.proxy.requests for request in split(bytes(line))]
    assert {request.path for request in sent} >= {"/api/v1/node/session", "/api/v1/node/beat"}
    for request in (*reversed(sent), *sent):
        request.send(cluster.url)
    assert snapshot(cluster) == before
    assert node.is_up
    cluster.ledger.open_gate("go")
    assert cluster.await_end(running)["outcome"] == "succeeded"


class Request:
    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.path = first.split()[1]
        self.headers = dict(line.split(": ", 1) for line in lines if line)
        self.body = body

    def send(self, url: str) -> None:
        answer = requests.post(url + self.path, data=self.body, headers=self.headers, timeout=120)
        assert answer.status_code in (200, 409), answer.text


def split(sent: bytes) -> Iterator[Request]:
    """The requests of one connection; the last may be incomplete."""
    while sent:
        head, _, rest = sent.partition(b"\r\n\r\n")
        sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        size = int(sizes[0].partition(b":")[2]) if sizes else 0
        if len(rest) < size:
            return
        yield Request(head, rest[:size])
        sent = rest[size:]


def snapshot(cluster: Cluster) -> list[list[tuple[object, ...]]]:
    """All rows of the tables that a worker can change, and the epoch of its node."""
    database = Database(cluster.settings.sqlalchemy_url, Wakeups())
    with database.read() as session:
        found = [
            [tuple(row) for row in session.execute(select(*table.__table__.columns)).all()]
            for table in (Job, Process, Event, Allocation)
        ]
        found.append([tuple(row) for row in session.execute(select(Node.name, Node.epoch, Node.state))])
    database.dispose()
    return found
