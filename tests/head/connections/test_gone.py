"""Clients that leave, and clients that read nothing: the head stops working for them."""

import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from pit_protocol import API_PREFIX
from tests.support.clusters.lab import Lab
from tests.support.clusters.local import eventually

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
SPARSE = 1 << 43  # 8 TiB that take no space, and hours to hash
PASSWORD = "correct horse"


class RealHead:
    def __init__(self, lab: Lab) -> None:
        self.url, self.data = lab.url + API_PREFIX, lab.place / "head" / "data"
        answer = requests.post(
            f"{self.url}/users",
            json={"name": "anna", "full_name": "Anna", "password": PASSWORD, "setup_code": lab.setup_code()},
            timeout=120,
            verify=False,
        )
        self.token = answer.json()["token"]
        assert self.get("/files/home?list").status_code == 200  # which makes the directory

    def get(self, path: str, timeout: float = 20.0) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return requests.get(self.url + path, headers=headers, timeout=timeout, verify=False)

    def ask(self, path: str) -> socket.socket:
        """Send a request and read nothing of the answer."""
        place = urlsplit(self.url)
        sock = socket.create_connection((place.hostname, place.port), timeout=120)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        sock = context.wrap_socket(sock)
        head = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {self.token}\r\n\r\n"
        sock.sendall(head.encode())
        return sock


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    lab = Lab(tmp_path_factory.mktemp("head"), PIT_HEAD_USER_TRANSFERS="2", PIT_HEAD_REQUEST_TIMEOUT_S="2")
    try:
        lab.start_head()
        real = RealHead(lab)
        with (real.data / "home" / "anna" / "sparse").open("wb") as file:
            file.truncate(SPARSE)
        yield real
    finally:
        lab.close()


def is_free(head: RealHead) -> bool:
    return head.get("/files/home?list").status_code == 200


@pytest.mark.parametrize("query", ["sha256", "tar=gz"])
@pytest.mark.threat("F32")
def test_what_a_client_waited_for_ends_when_it_leaves(head: RealHead, query: str) -> None:
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(
                head.ask(f"{API_PREFIX}/files/home/{'sparse' if query == 'sha256' else ''}?{query}")
            )
        eventually(lambda: head.get("/files/home?list").status_code == 429)
    eventually(lambda: is_free(head))


def test_a_request_that_computes_for_too_long_says_so(head: RealHead) -> None:
    answer = head.get("/files/home/sparse?sha256")
    assert (answer.status_code, answer.json()["code"]) == (503, "took_too_long")
    assert answer.json()["message"] == "this took longer than 2 s"


def test_ctrl_c_ends_a_head_that_holds_a_request(tmp_path: Path) -> None:
    lab = Lab(tmp_path, PIT_HEAD_USER_HELD="1")
    process = lab.start_head()
    try:
        head = RealHead(lab)
        seen = head.get("/status").json()["revision"]
        with head.ask(f"{API_PREFIX}/status?wait_s=60&seen={seen}") as held:
            eventually(lambda: head.get(f"/status?wait_s=0&seen={seen}").status_code == 429)
            process.send_signal(signal.SIGINT)
            assert held.recv(100).startswith(b"HTTP/1.1 200 OK")
        process.wait(120)
    finally:
        lab.close()
    assert "SIGKILL" not in lab.console()
