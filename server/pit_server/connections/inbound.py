"""A connection while its next request arrives, without a thread: handshake, head, and a small body.

Only the event loop uses it. A request is handed to a thread when it is complete, so a client that sends a
byte now and then costs a file descriptor, until its deadline.
"""

import re
import selectors
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Any

from pit_server.connections.patient_socket import PatientSocket
from pit_server.traffic import Traffic

HANDSHAKE_S = 5.0
RECEIVE_S = 15.0  # for the head of a request and a small body
IDLE_S = 60.0  # between two requests
LINGER_S = 1.0  # for a client to read the last answer
MAX_HEAD = 64 * 1024
SMALL_BODY = 64 * 1024  # a larger one is read by the thread that handles the request
BLOCK = 64 * 1024
HANDSHAKE = b"\x16"  # the first byte of a TLS connection
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
# Of a body whose size is not known, or that is sent when the client is told to go on.
_LATER = re.compile(rb"\r\n(expect|transfer-encoding):", re.IGNORECASE)


class Stage(Enum):
    HELLO = auto()  # the first byte says whether the client speaks TLS
    HANDSHAKE = auto()
    IDLE = auto()
    RECEIVING = auto()
    COMPLETE = auto()  # the request may be handled
    PLAIN = auto()  # a client without TLS, where TLS is needed
    TOO_LARGE = auto()  # a head that does not end
    LINGERING = auto()  # the last answer has been sent
    GONE = auto()


class Inbound:
    """Has what gunicorn expects of a connection: `sock`, `client`, `server`, `parser`."""

    def __init__(
        self, sock: socket.socket, client: Any, server: Any, context: ssl.SSLContext | None, now: float
    ) -> None:
        self.sock: Any = PatientSocket.adopt(sock)
        self.sock.setblocking(False)
        self.client, self.server = client, server
        self.traffic = Traffic.SHORT  # known when its request is complete
        self.parser: Any = None
        self.events = selectors.EVENT_READ
        self.deadline = now + (HANDSHAKE_S if context else RECEIVE_S)
        self.stage = Stage.HELLO if context else Stage.IDLE
        self.is_whole = False  # the request that is being handled had arrived with its body
        self._context = context
        self._buffer = bytearray()
        self._needed: int | None = None  # bytes until the request is complete, once its head is

    @property
    def target(self) -> tuple[str, str]:
        """The method of the request, and its path with its query."""
        words = bytes(self._buffer[: self._buffer.find(b"\r\n")]).split(b" ")
        return words[0].decode("latin-1"), (words[1] if len(words) > 1 else b"/").decode("latin-1")

    def advance(self, now: float) -> Stage:
        """Take what has arrived; raises nothing."""
        try:
            while self._step(now):
                pass
        except (ssl.SSLWantReadError, BlockingIOError):
            self.events = selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            self.events = selectors.EVENT_WRITE
        except (OSError, ValueError):
            self.stage = Stage.GONE
        return self.stage

    def hand_over(self, make_parser: Callable[[], Any]) -> None:
        """Give what has arrived to the parser; from here on a thread has the connection."""
        if self.parser is None:
            self.parser = make_parser()
        self.parser.unreader.unread(bytes(self._buffer))
        self._buffer.clear()
        self._needed = None
        self.sock.setblocking(True)
        self.sock.renew()

    def take_back(self, now: float) -> None:
        """The thread is done, and the client may send its next request."""
        self.sock.setblocking(False)
        self.stage, self.deadline = Stage.IDLE, now + IDLE_S
        self._receive(self.parser.unreader.take_buffered(), now)

    def linger(self, now: float) -> None:
        """Let the client read what was sent: closing at once could discard it."""
        self.stage, self.deadline = Stage.LINGERING, now + LINGER_S
        with suppress(OSError, ValueError):
            self.sock.setblocking(False)
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        with suppress(OSError):
            self.sock.close()

    def _step(self, now: float) -> bool:
        """One non-blocking step; returns whether to try another one."""
        if self.stage is Stage.HELLO:
            self._look_at_first_byte()
        elif self.stage is Stage.HANDSHAKE:
            self.sock.do_handshake()
            self.stage, self.deadline = Stage.IDLE, now + RECEIVE_S
        elif self.stage is Stage.LINGERING:
            if not self.sock.recv(BLOCK):
                self.stage = Stage.GONE
        elif self.stage in (Stage.IDLE, Stage.RECEIVING):
            if data := self.sock.recv(BLOCK):
                self._receive(data, now)
            else:
                self.stage = Stage.GONE
        return self.stage in (Stage.HANDSHAKE, Stage.IDLE, Stage.RECEIVING, Stage.LINGERING)

    def _look_at_first_byte(self) -> None:
        first = self.sock.recv(1, socket.MSG_PEEK)
        if self._context is None or first != HANDSHAKE:
            # Unread data would make the kernel reset the connection before the answer.
            self.sock.recv(BLOCK)
            self.stage = Stage.PLAIN if first else Stage.GONE
            return
        self.sock = self._context.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
        self.sock.setblocking(False)
        self.stage = Stage.HANDSHAKE

    def _receive(self, data: bytes, now: float) -> None:
        if not data:
            return
        if self.stage is Stage.IDLE:
            self.stage, self.deadline = Stage.RECEIVING, now + RECEIVE_S
        searched = max(0, len(self._buffer) - 3)
        self._buffer += data
        if self._needed is None:
            self._needed = self._count_needed(searched)
        if self._needed is not None:
            if len(self._buffer) >= self._needed:
                self.stage = Stage.COMPLETE
        elif len(self._buffer) > MAX_HEAD:
            self.stage = Stage.TOO_LARGE

    def _count_needed(self, searched: int) -> int | None:
        end = self._buffer.find(b"\r\n\r\n", searched)
        if end < 0:
            return None
        head = bytes(self._buffer[: end + 2])
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        self.is_whole = size <= SMALL_BODY and not _LATER.search(head)
        return end + 4 + (size if self.is_whole else 0)
