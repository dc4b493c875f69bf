"""The tunnel from loopback to a head: bytes pass both ways, and only to the head that is known."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pit_protocol.transport.pinning import pinned_context
from pit_protocol.transport.tunnel import Tunnel
from tests.support.certificates import Certificate, a_certificate

LARGE = b"x" * 3_000_000


@contextmanager
def echoing(shown: Certificate, folder: Path) -> Iterator[tuple[str, list[bytes]]]:
    """A TLS server that sends back what it gets, and notes how it begins."""
    heard: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    context = shown.serving(folder)

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
                with context.wrap_socket(plain, server_side=True) as secure:
                    while data := secure.recv(65536):
                        heard.append(data)
                        secure.sendall(data)
            except ssl.SSLError:
                continue
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(120)


def through(tunnel: Tunnel, data: bytes) -> bytes:
    parts = urlsplit(tunnel.url)
    answer = b""
    with socket.create_connection((parts.hostname, parts.port), timeout=120) as line:
        sender = threading.Thread(target=line.sendall, args=(data,))
        sender.start()
        try:
            while len(answer) < len(data) and (piece := line.recv(65536)):
                answer += piece
        except ConnectionResetError:
            pass
        sender.join(120)
    return answer


def test_bytes_pass_both_ways(tmp_path: Path) -> None:
    # By its certificate, although it is for another name.
    shown = a_certificate("elsewhere.example.org")
    with echoing(shown, tmp_path) as (url, _), Tunnel(url, pinned_context([shown.pem])) as tunnel:
        assert through(tunnel, LARGE) == LARGE
        assert through(tunnel, b"again") == b"again"


@pytest.mark.parametrize("who", ["a stranger", "one whom the head has signed", "the head, expired"])
def test_nothing_is_sent_to_anyone_else(tmp_path: Path, who: str) -> None:
    known = a_certificate(is_ca=True)
    shown = {
        "a stranger": lambda: a_certificate(),
        "one whom the head has signed": lambda: a_certificate(signed_by=known),
        "the head, expired": lambda: a_certificate(days=-1),
    }[who]()
    trusted = shown if who == "the head, expired" else known
    with echoing(shown, tmp_path) as (url, heard), Tunnel(url, pinned_context([trusted.pem])) as tunnel:
        assert through(tunnel, b"a secret") == b""
        assert heard == []
