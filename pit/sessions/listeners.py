"""The local ends of forwarded ports: sockets that listen on loopback."""

import errno
import socket
from dataclasses import dataclass

from pit_protocol.problem import Problem

LOOPBACK = "127.0.0.1"
WAITING = 128  # connections that the kernel holds until they are accepted


@dataclass(frozen=True)
class Listener:
    sock: socket.socket
    port: int  # of the process

    @property
    def local_port(self) -> int:
        return int(self.sock.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.local_port}"


def listen(local_port: int, port: int) -> Listener:
    """Listen for connections to a port of the process; raises a Problem."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, local_port))
        sock.listen(WAITING)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is in use" if error.errno == errno.EADDRINUSE else "may be used only by root"
        raise Problem(
            "port_busy",
            f"port {local_port} of this machine {why}",
            f"write 0:{port} for any free port, or LOCAL:{port} for one that you choose",
        ) from None
    return Listener(sock, port)
