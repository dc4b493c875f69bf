"""Clients of two users that ask for large files and read nothing: everybody else is answered meanwhile."""

import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest
import requests

from pit_protocol import API_PREFIX
from pit_protocol.version_check import HEADERS
from pit_server.app import create_head
from pit_server.services.users import accounts, tokens
from tests.support.clusters.head import a_submission
from tests.support.clusters.local import eventually
from tests.support.faults.cluster import Cluster

STALLED = 70  # requests per user, far more than one user may have at a time
ANSWER_S = 20.0  # the old server took over a minute
MAKE_FILES = "head -c 20000000 /dev/urandom > $KEEP_DIR/big; cp $KEEP_DIR/big $USER_DIR/big"


@pytest.fixture
def three(a_cluster: Callable[..., Cluster]) -> tuple[Cluster, list[str]]:
    """A cluster that runs, and the tokens of three users."""
    cluster = a_cluster("n0")
    head = create_head(cluster.settings)
    found = []
    with head.database.write() as session:
        for name in ("bert", "cora", "dora"):
            user = accounts.add(session, name, is_admin=False, now=0.0)
            found.append(tokens.issue(session, user_id=user.id, now=0.0, expires_at=None)[1])
    head.database.dispose()
    cluster.start()
    cluster.call("PATCH", "/nodes/n0", json={"set": {"shared_account": "yes"}})
    return cluster, found


def get(cluster: Cluster, token: str, path: str) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}", **HEADERS}
    return requests.get(cluster.url + API_PREFIX + path, headers=headers, timeout=ANSWER_S)


def run_job(cluster: Cluster, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}", **HEADERS}
    body = a_submission(command=MAKE_FILES, request="[]")
    answer = requests.post(f"{cluster.url}{API_PREFIX}/jobs", json=body, headers=headers, timeout=120)
    number = int(answer.json()["number"])
    eventually(lambda: get(cluster, token, f"/jobs/{number}").json()["outcome"] == "succeeded")
    return number


def ask(cluster: Cluster, token: str, path: str) -> socket.socket:
    """Send a request and read nothing of the answer."""
    sock = socket.create_connection((cluster.host, cluster.port), timeout=ANSWER_S)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host = f"{cluster.host}:{cluster.port}"
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    return sock


@pytest.mark.threat("F32")
def test_readers_that_stall_delay_nobody_else(three: tuple[Cluster, list[str]]) -> None:
    cluster, (bert, cora, dora) = three
    paths = {token: f"{API_PREFIX}/jobs/{run_job(cluster, token)}/archive" for token in (bert, cora)}
    with ExitStack() as stack:
        for path in (*paths.values(), "/dav/home/big"):
            token = next((token for token, archive in paths.items() if archive == path), bert)
            sock = stack.enter_context(ask(cluster, token, path))
            assert sock.recv(100).startswith(b"HTTP/1.1 200 OK")
        for number in range(STALLED):
            for token, archive in paths.items():
                path = archive if number % 2 else "/dav/home/big"
                stack.enter_context(ask(cluster, token, path))
        for token in paths:
            eventually(lambda token=token: get(cluster, token, "/files/home?list").status_code == 429)
        for path in ("/status", "/files/home?list", "/nodes") * 10:
            assert get(cluster, dora, path).status_code == 200
        assert all(get(cluster, token, "/status").status_code == 200 for token in paths)
