"""Connections to a port of a process, in the network that the process has."""

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pit_protocol.problem import Problem
from pit_worker import kernel

CONNECT_S = 5.0
LOOPBACK = ("127.0.0.1", "::1")
T = TypeVar("T")


def connect(pid: int, port: int) -> socket.socket:
    """A connection to what listens on loopback where the process runs; raises OSError or a Problem."""
    place = Path(f"/proc/{pid}/ns/net")
    try:
        if place.readlink() == Path("/proc/self/ns/net").readlink():
            return _connect(port)
        space = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _call_inside(space, lambda: _connect(port))
        finally:
            os.close(space)
    except PermissionError:
        raise Problem(
            "not_root", "this node's worker is not root, and cannot reach ports in a container"
        ) from None


def _connect(port: int) -> socket.socket:
    refused: OSError | None = None
    for address in LOOPBACK:
        try:
            return socket.create_connection((address, port), CONNECT_S)
        except OSError as error:
            refused = refused or error
    raise refused or OSError("there is no loopback")


def _call_inside(space: int, call: Callable[[], T]) -> T:
    """Call it in a thread that is in this network; its sockets stay there."""

    def inside() -> T:
        kernel.set_namespace(space, 0)
        return call()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(inside).result()
