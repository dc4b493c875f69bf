"""A TCP connection as a stream: its directions end one by one, and what breaks here breaks there."""

import socket
import struct
from contextlib import suppress

from pit_protocol.sessions.streams import Stream

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s: closing sends a reset


def tcp_stream(number: int, sock: socket.socket) -> Stream:
    """The stream owns the socket from now on."""
    with suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def end_sink() -> None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_WR)

    def abort() -> None:
        """A peer must not take a connection that broke for one that has ended."""
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    handle = sock.fileno()
    return Stream(number, source=handle, sink=handle, end_sink=end_sink, abort=abort, close=sock.close)
