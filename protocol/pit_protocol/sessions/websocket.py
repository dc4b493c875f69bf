"""A WebSocket without threads: its owner polls its socket, and calls it when something can be done.

The `websockets` package has the protocol; here is its input and output. A peer that is silent for too long,
even when asked, is gone.
"""

import logging
import select
import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, State

PING_S = 10.0  # of silence, after which the peer is asked
GONE_S = 30.0  # of silence, after which it is gone
READ = 256 * 1024
TURN = 1024 * 1024  # bytes that are read before others get their turn
CLOSE_NORMAL = 1000
logging.getLogger("websockets").setLevel(logging.WARNING)  # it has a line for every connection


class Closed(Exception):
    """The other side has closed the connection, or it broke; `is_clean` if all was said before."""

    def __init__(self, why: str, *, is_clean: bool = False) -> None:
        super().__init__(why)
        self.is_clean = is_clean


class WebSocket:
    """One end of an open connection."""

    def __init__(self, sock: Any, protocol: Protocol) -> None:
        self.sock, self._protocol = sock, protocol
        sock.setblocking(False)
        with suppress(OSError):  # a Unix socket has no such option
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._outgoing: deque[memoryview] = deque()
        self.buffered = 0  # bytes that the kernel has not taken yet
        self._heard_at = self._asked_at = time.monotonic()
        self._parts: list[bytes] = []  # of a message in several frames
        self._opcode = Opcode.BINARY

    def fileno(self) -> int:
        return int(self.sock.fileno())

    def receive(self) -> list[str | bytes]:
        """The messages that have arrived; raises Closed once there will be no more."""
        messages: list[str | bytes] = []
        left = TURN
        if self._protocol.state is not State.OPEN:
            raise self._closed()
        while left > 0:
            try:
                data = self.sock.recv(READ)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except (OSError, ValueError) as error:
                if messages:
                    break
                raise Closed(str(error)) from error
            self._heard_at = time.monotonic()
            left -= len(data)
            messages += self._take(data)
            if not data or self._protocol.state is not State.OPEN:
                if messages:
                    break  # they come first; the next call raises
                raise self._closed()
        return messages

    def has_more(self) -> bool:
        """Whether bytes have arrived that polling does not show, because TLS has decrypted them."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def send(self, message: str | bytes) -> None:
        """Send as much as fits and keep the rest; raises Closed."""
        try:
            if isinstance(message, str):
                self._protocol.send_text(message.encode())
            else:
                self._protocol.send_binary(message)
        except WebSocketException as error:
            raise Closed("it is closed") from error
        self.flush()

    def flush(self) -> None:
        """Pass what is kept to the kernel, as far as it takes it; raises Closed."""
        for data in self._protocol.data_to_send():
            if data:
                self._outgoing.append(memoryview(data))
                self.buffered += len(data)
        while self._outgoing:
            first = self._outgoing[0]
            try:
                sent = self.sock.send(first)
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            except (OSError, ValueError) as error:
                raise Closed(str(error)) from error
            self.buffered -= sent
            if sent == len(first):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = first[sent:]

    def check_alive(self) -> None:
        """Ask a silent peer for a sign of life; raises Closed for one that gives none."""
        now = time.monotonic()
        silent_s = now - self._heard_at
        if silent_s > GONE_S:
            raise Closed("it does not answer any more")
        if silent_s > PING_S and now - self._asked_at > PING_S:
            self._asked_at = now
            with suppress(WebSocketException):
                self._protocol.send_ping(b"")
            self.flush()

    def excuse_silence(self) -> None:
        """It was not read from on purpose, so its silence says nothing."""
        self._heard_at = time.monotonic()

    def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        """Say that this is the end, and send what is kept if it can be sent now."""
        with suppress(WebSocketException):
            self._protocol.send_close(code, reason)
        self._flush_quietly()

    def drain(self, seconds: float) -> None:
        """Send what is kept, as long as the other side takes some of it within that time."""
        poll = select.poll()
        try:
            poll.register(self.fileno(), select.POLLOUT)
            while before := self.buffered:
                if not poll.poll(seconds * 1000):
                    return
                self.flush()
                if self.buffered == before:
                    return
        except (Closed, OSError, ValueError):
            return

    def _closed(self) -> Closed:
        told = self._protocol.close_rcvd
        is_clean = told is not None and told.code == CLOSE_NORMAL
        return Closed(told.reason if told and told.reason else "the connection broke off", is_clean=is_clean)

    def _flush_quietly(self) -> None:
        with suppress(Closed):
            self.flush()

    def _take(self, data: bytes) -> list[str | bytes]:
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        whole: list[str | bytes] = []
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                if event.opcode is not Opcode.CONT:
                    self._opcode, self._parts = event.opcode, []
                self._parts.append(bytes(event.data))
                if event.fin:
                    body = b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]
                    whole.append(body.decode(errors="replace") if self._opcode is Opcode.TEXT else body)
        self._flush_quietly()  # answers to pings
        return whole
