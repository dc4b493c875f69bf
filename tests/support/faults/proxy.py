"""A TCP proxy that does to a connection what bad networks do: delay, hold, lose, cut, slow down.

Each direction is a `Flow` of its own. A held flow delivers its bytes when it is released, as TCP does
after a partition; a losing flow swallows them, as if the machine behind it had died.
"""

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

BLOCK = 65536


@dataclass
class Flow:
    """What happens to the bytes of one direction."""

    delay_s: float = 0.0
    bytes_per_s: int = 0  # 0: no limit
    cut_after: int | None = None  # bytes; then the connection is cut, once
    loses: bool = False
    _open: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def heal(self) -> None:
        self.delay_s, self.bytes_per_s, self.cut_after, self.loses = 0.0, 0, None, False
        self.release()

    def pass_on(self, data: bytes, sink: socket.socket) -> bool:
        """Deliver as the flow does at the moment; False if that cuts the connection."""
        self._open.wait()
        if self.delay_s:
            time.sleep(self.delay_s)
        if self.loses:
            return True
        if self.cut_after is not None:
            if len(data) >= self.cut_after:
                sink.sendall(data[: self.cut_after])
                self.cut_after = None
                return False
            self.cut_after -= len(data)
        self._send(data, sink)
        return True

    def _send(self, data: bytes, sink: socket.socket) -> None:
        while self.bytes_per_s and data:
            piece = data[: max(self.bytes_per_s // 20, 1)]
            sink.sendall(piece)
            data = data[len(piece) :]
            time.sleep(len(piece) / self.bytes_per_s)
        sink.sendall(data)


class ChaosProxy:
    """Listens on loopback; `up` carries requests to the target, `down` its answers."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.up, self.down = Flow(), Flow()
        self.records = False
        self.requests: list[bytearray] = []  # if it records: all bytes that came, by connection
        self._target = target
        self._is_cut = False
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def partition(self) -> None:
        """Nothing arrives on either side; what is on its way arrives after `heal`."""
        self.up.hold()
        self.down.hold()

    def cut(self) -> None:
        """Reset all connections, and refuse new ones until `heal`."""
        self._is_cut = True
        self.reset()

    def reset(self) -> None:
        """Reset all connections; new ones work."""
        with self._lock:
            for each in self._sockets:
                _reset(each)

    def heal(self) -> None:
        self._is_cut = False
        self.up.heal()
        self.down.heal()

    def close(self) -> None:
        # A thread that waits in accept keeps the socket open unless it is shut down.
        self._listener.shutdown(socket.SHUT_RDWR)
        self.heal()
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                _reset(client)
                client.close()
                continue
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                _reset(client)
                client.close()
                continue
            server.settimeout(None)
            self._begin(client, server)

    def _begin(self, client: socket.socket, server: socket.socket) -> None:
        record = bytearray()
        with self._lock:
            if self.records:
                self.requests.append(record)
            self._sockets |= {client, server}
        threading.Thread(target=self._serve, args=(client, server, record), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket, record: bytearray) -> None:
        answers = threading.Thread(target=_pump, args=(server, client, self.down, None), daemon=True)
        answers.start()
        _pump(client, server, self.up, record if self.records else None)
        answers.join()
        with self._lock:
            self._sockets -= {client, server}
        client.close()
        server.close()


def _pump(source: socket.socket, sink: socket.socket, flow: Flow, seen: bytearray | None) -> None:
    with suppress(OSError):
        while data := source.recv(BLOCK):
            if seen is not None:
                seen += data
            if not flow.pass_on(data, sink):
                break
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _reset(line: socket.socket) -> None:
    with suppress(OSError):
        # With linger 0, close sends RST; shutdown wakes the threads that read from it.
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        line.shutdown(socket.SHUT_RDWR)
