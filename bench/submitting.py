"""Jobs by the API alone, as the client sends them, without the start of a client."""

import uuid
from typing import Any

from pit.connection import Connection
from pit.head import Head
from pit_protocol.submission import Snapshot, Submission
from tests.e2e.cluster import Cluster


def connect(cluster: Cluster) -> Head:
    url = (cluster.home / "connect.txt").read_text().split()[0]
    token = cluster.home / "user.token"
    return Head(Connection(url, cluster.home / "connect.txt", token.read_text().strip(), token))


def snapshot(cluster: Cluster) -> Snapshot:
    project = cluster.project
    return Snapshot(
        tree=project.git("rev-parse", "HEAD^{tree}"),
        commit=project.git("rev-parse", "HEAD"),
        remote=f"file://{project.path.parent}/origin.git",
    )


def submit(head: Head, code: Snapshot, command: str, request: str = "[]") -> dict[str, Any]:
    return head.submit(Submission(uuid.uuid4().hex, "bench", request, code, command))


def wait(head: Head, number: int) -> dict[str, Any]:
    while True:
        record = head.job(number, wait_s=20)
        if record["state"] == "ended":
            return record
