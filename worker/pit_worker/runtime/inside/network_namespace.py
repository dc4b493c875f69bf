"""Connections to a port of a process, in the network that the process has."""

import errno
import os
import select
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pit_protocol.problem import Problem
from pit_worker import kernel

CONNECT_MS = 200  # loopback answers at once, unless the listener has more to accept than it can
LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
T = TypeVar("T")


def connect(pid: int, port: int) -> socket.socket:
    """A connection, perhaps not complete yet, to what listens on loopback where the process runs.

    It does not wait for a busy listener. Raises OSError or a Problem.
    """
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
    for family, address in LOOPBACK:
        try:
            return _begin(family, (address, port))
        except OSError as error:
            refused = refused or error
    raise refused or OSError("there is no loopback")


def _begin(family: socket.AddressFamily, address: tuple[str, int]) -> socket.socket:
    """A socket that is connected, or will be when a busy listener accepts; raises OSError if refused."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        code = sock.connect_ex(address)
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        if code == errno.EINPROGRESS and poll.poll(CONNECT_MS):
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


def _call_inside(space: int, call: Callable[[], T]) -> T:
    """Call it in a thread that is in this network; its sockets stay there."""

    def inside() -> T:
        kernel.set_namespace(space, 0)
        return call()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(inside).result()
