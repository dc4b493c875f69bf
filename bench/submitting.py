"""Submit jobs through the API as the client does, without starting a client process."""

import tempfile
import uuid
from pathlib import Path

from pit.connect.connection import Connection
from pit.head.client import Head
from pit.jobs.submission import bring
from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.repository import Repository
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.job_options import JobOptions
from pit_protocol.messages.submission import Snapshot, Submission
from tests.support.clusters.local import Cluster


def connect(cluster: Cluster) -> Head:
    url = (cluster.home / "connect.txt").read_text().split()[0]
    token = cluster.home / "user.token"
    return Head(Connection(url, cluster.home / "connect.txt", token.read_text().strip(), token))


def snapshot(cluster: Cluster, head: Head) -> Snapshot:
    """Take a snapshot of the cluster's project with the client's own code, and send the missing objects."""
    with tempfile.TemporaryDirectory() as place:
        return bring(head, WorktreeSnapshot(Repository.find(cluster.project.path), Path(place)))


def submit(
    head: Head, code: Snapshot, command: str, request: str = "[]", array: str | None = None
) -> JobRecord:
    options = JobOptions(command=command, array=array)
    return head.submit(Submission(uuid.uuid4().hex, "bench", request, code, options=options))


def wait(head: Head, number: int) -> JobRecord:
    while True:
        record = head.job(number, wait_s=20)
        if record.state == "ended":
            return record
