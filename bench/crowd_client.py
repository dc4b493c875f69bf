"""Many connections to a head from one process: some ask again and again, some send nothing."""

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Protocol

from pit_protocol import API_PREFIX
from pit_protocol.version_check import HEADERS

Place = tuple[str, int]
ADDRESSES = 20  # of those who guess passwords


class Ask(Protocol):
    async def __call__(self, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        """The body of the answer."""


async def exchange(place: Place, token: str) -> AsyncIterator[Ask]:
    """What asks over one connection, for ever."""
    reader, writer = await asyncio.open_connection(*place)

    async def ask(method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        headers = {
            **HEADERS,
            "Host": f"{place[0]}:{place[1]}",
            "Authorization": f"Bearer {token}",
            "Content-Length": str(len(body)),
            **({"Content-Type": kind} if kind else {}),
        }
        lines = [
            f"{method} {API_PREFIX}{path} HTTP/1.1",
            *(f"{key}: {value}" for key, value in headers.items()),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = int(head.partition("\r\ncontent-length:")[2].partition("\r\n")[0])
        answer = await reader.readexactly(size)
        if not head.startswith(("http/1.1 200 ", "http/1.1 201 ")):
            raise RuntimeError(f"{method} {path}: {head.partition(chr(13))[0]} {answer[:300]!r}")
        return answer

    try:
        while True:
            yield ask
    finally:
        writer.close()


@contextmanager
def open_idle(place: Place, count: int, sent: bytes = b"") -> Iterator[None]:
    """Connections that send this and then nothing."""
    with ExitStack() as stack:
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection(place, timeout=60))
            if sent:
                sock.sendall(sent)
        yield


def guess_all(place: Place, count: int) -> set[int]:
    """The statuses of wrong passwords, all sent at once; in a process of its own."""
    with ThreadPoolExecutor(count) as pool:
        return set(pool.map(lambda index: _guess(place, index), range(count)))


def _guess(place: Place, index: int) -> int:
    """The answer to a wrong password, from one of several addresses."""
    body = json.dumps({"name": f"crowd{index % 3}", "password": f"guess {index:05}", "label": ""})
    source = (f"127.0.0.{2 + index % ADDRESSES}", 0)
    connection = http.client.HTTPConnection(*place, timeout=120, source_address=source)
    try:
        connection.request("POST", f"{API_PREFIX}/login", body, {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()
