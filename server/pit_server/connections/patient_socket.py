"""Sockets that give up on a peer which is slower than a snail, however regularly it sends a byte.

A thread that reads a body or sends a file has a *patience*: waiting uses it up, bytes renew it. Time that the
head itself takes, such as a held request, does not count.
"""

import socket
import ssl
import time
from typing import Any

from pit_server import cancellation

PATIENCE_S = 30.0
SLOWEST = 4096  # bytes per second that keep the patience from shrinking


class _Patience:
    """Mixin: bounds `recv` and `send`. A timeout of 0, as the event loop sets it, stays as it is."""

    _chosen: float | None = None
    _patience_s = PATIENCE_S

    def settimeout(self, value: float | None) -> None:
        self._chosen = value
        super().settimeout(value)  # type: ignore[misc]

    def setblocking(self, flag: bool) -> None:
        self.settimeout(PATIENCE_S if flag else 0.0)

    def renew(self) -> None:
        """Start a request with full patience."""
        self._patience_s = PATIENCE_S

    def recv(self, *args: Any) -> bytes:
        began = self._begin(0)
        data: bytes = super().recv(*args)  # type: ignore[misc]
        self._end(began, len(data))
        cancellation.renew()
        return data

    def send(self, data: Any, *args: Any) -> int:
        began = self._begin(len(data))
        sent: int = super().send(data, *args)  # type: ignore[misc]
        self._end(began, sent)
        cancellation.renew()
        return sent

    def _begin(self, size: int) -> float:
        if self._chosen != 0.0:
            if self._patience_s <= 0:
                raise TimeoutError("the client is too slow")
            limit = self._patience_s + size / SLOWEST
            super().settimeout(limit if self._chosen is None else min(self._chosen, limit))  # type: ignore[misc]
        return time.monotonic()

    def _end(self, began: float, size: int) -> None:
        if self._chosen != 0.0:
            left = self._patience_s - (time.monotonic() - began) + size / SLOWEST
            self._patience_s = min(PATIENCE_S, left)


class PatientSocket(_Patience, socket.socket):
    @classmethod
    def adopt(cls, plain: socket.socket) -> "PatientSocket":
        return cls(plain.family, plain.type, plain.proto, fileno=plain.detach())

    def sendall(self, data: Any, *args: Any) -> None:
        began = self._begin(len(data))
        super().sendall(data, *args)
        self._end(began, len(data))
        cancellation.renew()


class PatientTlsSocket(_Patience, ssl.SSLSocket):
    """Its `sendall` calls `send`, and is bounded by that."""
