"""Connections that send little or nothing: the head keeps answering everybody else."""

import json
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import requests

from pit_protocol import API_PREFIX
from pit_server.connections.inbound import MAX_HEAD
from tests.support.clusters.lab import Lab

ANSWER_S = 20.0  # the old server took 25 to 75


@pytest.fixture(scope="module", params=["on", "off"])
def head(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real head, with TLS and without."""
    lab = Lab(tmp_path_factory.mktemp("head"), PIT_HEAD_TLS=request.param, PIT_HEAD_BCRYPT_COST="10")
    lab.start_head()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REQUESTS_CA_BUNDLE", str(lab.place / "head" / "certificate.pem"))
        yield lab.url if request.param == "on" else lab.url.replace("https", "http")
    lab.close()


def connect(head: str) -> socket.socket:
    host, _, port = head.partition("//")[2].partition(":")
    return socket.create_connection((host, int(port)), timeout=ANSWER_S)


def speak(head: str, text: bytes) -> bytes:
    """Send it and read all that comes back."""
    sock = connect(head)
    if head.startswith("https"):
        sock = insecure().wrap_socket(sock)
    with sock:
        sock.sendall(text)
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    return answer


@cache
def insecure() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def ask(head: str) -> int:
    """The status of a request that needs no token."""
    return requests.get(f"{head}{API_PREFIX}/", timeout=ANSWER_S).status_code


def log_in(head: str, number: int) -> tuple[int, Any]:
    body = {"name": f"nobody{number}", "password": "wrong password", "label": ""}
    url = f"{head}{API_PREFIX}/login"
    answer = requests.post(url, json=body, timeout=120)
    return answer.status_code, answer.json()


@pytest.mark.parametrize(
    "sent", [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nA B: c\r\n\r\n"]
)
def test_what_is_no_request_gets_a_problem_too(head: str, sent: bytes) -> None:
    answer, _, body = speak(head, sent).partition(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in answer
    assert json.loads(body)["code"] == "bad_http"


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n", b"\x16"])
@pytest.mark.threat("S59")
def test_many_connections_that_send_little_stop_nobody(head: str, sent: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(1100):
            sock = stack.enter_context(connect(head))
            sock.sendall(sent)
        assert ask(head) == 200


def test_a_body_that_does_not_come_takes_no_thread(head: str) -> None:
    start = f"POST {API_PREFIX}/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with ExitStack() as stack:
        for _ in range(200):
            sock = connect(head)
            if head.startswith("https"):
                sock = insecure().wrap_socket(sock)
            stack.enter_context(sock).sendall(f"{start}Content-Length: 100\r\n\r\n{{".encode())
        assert ask(head) == 200
        assert log_in(head, 0)[0] == 401


def test_headers_without_end_are_refused(head: str) -> None:
    answer = speak(head, b"GET / HTTP/1.1\r\nX: " + b"x" * MAX_HEAD)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "head_too_large"


def test_two_requests_sent_at_once_are_both_answered(head: str) -> None:
    request = f"GET {API_PREFIX}/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    answer = speak(head, f"{request}\r\n{request}Connection: close\r\n\r\n".encode())
    assert answer.count(b"HTTP/1.1 200 OK") == 2


def test_a_request_in_pieces_is_answered(head: str) -> None:
    sock = connect(head)
    if head.startswith("https"):
        sock = insecure().wrap_socket(sock)
    with sock:
        for piece in (
            b"GET ",
            f"{API_PREFIX}/".encode(),
            b" HTTP/1.1\r\nHost: 127.0.0.1\r",
            b"\n\r",
            b"\n",
        ):
            sock.sendall(piece)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.threat("S06")
def test_bad_logins_in_a_crowd_are_told_to_come_back_and_stop_nobody(head: str) -> None:
    with ThreadPoolExecutor(64) as clients:
        logins = [clients.submit(log_in, head, number) for number in range(200)]
        assert ask(head) == 200
        statuses = {login.result()[0] for login in logins}
    assert statuses <= {401, 429, 503}


def test_a_plain_request_to_a_head_with_tls_is_told_so(tmp_path: Path, head: str) -> None:
    if head.startswith("https"):
        assert b"this head speaks TLS" in speak(head.replace("https", "http"), b"GET / HTTP/1.1\r\n\r\n")
